/* SPDX-License-Identifier: Apache-2.0 */
/* When an excluded rank's device is faster again, by looks at it alone. */
#include <math.h>

#include "core/balance/balance.h"

#define LOOKS 3u /* before one is believed: on a busy machine one of three or so is late, and all of these are so in 3 of 100 */

/* Other work only delays a look. Thus the least of those before the device became faster tells how slow it was, and a single one tells that
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
