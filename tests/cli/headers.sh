#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each installed header compiles alone, without a warning, as C11 and as C++17, each twice; and a program of either language
# can use the macros of yoke.h.
. "$YOKE_SOURCE/tests/golden/lib.sh"
cc=${CC:-cc} cxx=${CXX:-c++}

compiles() { # compiles FILE COMPILER OPTION...
    file=$1
    shift
    "$@" -Wall -Wextra -Wpedantic -Werror -I"$YOKE_SOURCE/include" -c -o "$out/o" "$file"
}

cat >"$out/use.c" <<'E2'
#include <yoke/yoke.h>

void use(yk_job *job, yk_data *data, yk_model *model, yk_opt *opt, yk_t x, yk_t w);
void use(yk_job *job, yk_data *data, yk_model *model, yk_opt *opt, yk_t x, yk_t w)
{
    yk_each(batch, job, data)
    {
        yk_t loss = yk_model_loss(model, &batch, yk_forward(model, &batch));
        yk_backward(loss);
        yk_step(opt);
    }
    yk_keep(yk_relu(yk_linear(x, w, YK_NO)));
}
E2

for path in "$YOKE_SOURCE"/include/yoke/*.h; do
    header=yoke/${path##*/}
    printf '#include <%s>\n#include <%s>\nextern int more;\n' "$header" "$header" >"$out/one.c"
    ok "$header as C11" compiles "$out/one.c" "$cc" -x c -std=c11
    if command -v "$cxx" >"$out/log"; then
        ok "$header as C++17" compiles "$out/one.c" "$cxx" -x c++ -std=c++17
    else
        skip "$header as C++17" "no $cxx here"
    fi
done
ok "a user's program as C11" compiles "$out/use.c" "$cc" -x c -std=c11
if command -v "$cxx" >"$out/log"; then
    ok "a user's program as C++17" compiles "$out/use.c" "$cxx" -x c++ -std=c++17
else
    skip "a user's program as C++17" "no $cxx here"
fi
plan
