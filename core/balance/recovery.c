/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects that an excluded rank's device is fast again. A look is the time of one fixed matrix product on that device, in seconds.
 *
 * core/job/team/rank_pace.c makes looks between windows, in the step thread, and calls yk__recovery_look with each. The returned factor
 * goes to the members, whose policy may then begin a trial (policy_steady.c).
 */
#include <math.h>

#include "core/balance/balance.h"

#define LOOKS 3u /* before a faster one is believed: on a busy machine about one in three is late, and in 3 of 100 cases every one is */

/* Other work only delays a look. So the shortest look before the device became faster shows how slow it was, and a single one shows that
 * it is faster. */
double yk__recovery_look(yk__recovery *v, double seconds)
{
    const bool faster = v->looks >= LOOKS && v->slow > YK__FASTER * seconds;
    v->looks++;
    if (v->fast > 0 || faster)
        v->fast = v->fast > 0 ? fmin(v->fast, seconds) : seconds;
    else
        v->slow = v->slow > 0 ? fmin(v->slow, seconds) : seconds;
    return v->fast > 0 ? v->slow / v->fast : 0;
}
