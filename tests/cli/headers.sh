#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each installed header compiles alone, without a warning, as C11 and as C++17, each twice; a program of either language can use the
# macros of yoke.h, and those in C++ name its lines in errors.
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

# Each form of a call in C++: a loop, a text for printf, a struct, brackets in the middle of a line, a call over two lines.
cat >"$out/use.cpp" <<'E3'
#include <cstdio>
#include <yoke/yoke.h>

void use(yk_job *job, yk_data *data, yk_model *model, yk_opt *opt);
void use(yk_job *job, yk_data *data, yk_model *model, yk_opt *opt)
{
    yk_each(batch, job, data)
    {
        yk_t loss = yk_model_loss(model, &batch, yk_forward(model, &batch));
        yk_backward(loss);
        yk_step(opt);
    }
    yk_print_in_order(job, "%d of %s", 1, "two");
}

static const yk_config config = [] {
    yk_config c{};
    c.devices = "cpu";
    c.quiet = true;
    return c;
}();

int main()
{
    void (*const fail_one[])(yk_job *) = {
        [](yk_job *job) { yk_clip_norm(job, -1); },
        [](yk_job *job) { yk_sgd_config c{}; c.lr = -1; yk_sgd(job, &c); },
        [](yk_job *job) {
            const int64_t seven = 7;
            yk_reshape(yk_constant(job, 1),
                       1, &seven);
        },
        [](yk_job *job) { yk_print_in_order(job, "%s", "a line"); yk_check_trigger(job); yk_track_open(job, nullptr); },
    };
    for (auto fail : fail_one) {
        yk_job *job = yk_open(&config);
        yk_memory memory;
        yk_memory_get(job, &memory);
        fail(job);
        std::puts(yk_error_text(job));
        yk_close(job);
    }
}
E3

# said COMPILER STANDARD OPTION...: the program is compiled, and its errors name these lines ("?" with YK_NO_HERE)
said() {
    said_cxx=$1 said_std=$2
    shift 2
    "$said_cxx" "-std=$said_std" -Wall -Wextra -pedantic -Werror "$@" -I"$YOKE_SOURCE/include" -o "$out/use" "$out/use.cpp" \
        -L"$YOKE_BUILD/.libs" -lyoke -Wl,-rpath,"$YOKE_BUILD/.libs" || return 1
    "$out/use" >"$out/said" 2>/dev/null || return 1
    cat "$out/said"
    sed -n 's/^.*use.cpp:\([0-9]*\): .*/\1/p' "$out/said" | tr '\n' ' ' >"$out/lines"
}
lines_are() { # lines_are LINES COMPILER STANDARD OPTION...
    want=$1
    shift
    said "$@" && [ "$(cat "$out/lines")" = "$want" ] && [ "$(wc -l <"$out/said")" -ge 4 ]
}

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

lines=$(grep -n 'yk_clip_norm(\|yk_sgd(\|yk_reshape(\|yk_track_open(' "$out/use.cpp" | sed 's/:.*//' | tr '\n' ' ')
for compiler in g++ clang++; do
    for standard in c++11 c++20; do
        if ! command -v $compiler >"$out/log"; then
            skip "errors of C++ have the caller's line, $compiler -std=$standard" "no $compiler here"
        elif instrumented; then
            skip "errors of C++ have the caller's line, $compiler -std=$standard" "instrumented: the library is not for plain programs"
        else
            ok "errors of C++ have the caller's line, $compiler -std=$standard" lines_are "$lines" $compiler $standard
        fi
    done
done
if instrumented || ! command -v g++ >"$out/log"; then
    skip "errors of C++ have no line by YK_NO_HERE" "no g++ here, or instrumented"
else
    ok "errors of C++ have no line by YK_NO_HERE" lines_are "" g++ c++11 -DYK_NO_HERE
fi

page() { # the program of docs/bindings.md says what the page says
    sed -n '/^```python$/,/^```$/{/^```/!p}' "$YOKE_SOURCE/docs/bindings.md" >"$out/page.py"
    sed -n '/^```text$/,/^```$/{/^```/!p}' "$YOKE_SOURCE/docs/bindings.md" >"$out/expected"
    grep -q . "$out/expected" && LD_LIBRARY_PATH=$YOKE_BUILD/.libs python3 "$out/page.py" | diff "$out/expected" -
}
if instrumented || ! command -v python3 >"$out/log"; then
    skip "a binding passes sizes" "no python3 here, or instrumented"
else
    ok "a binding passes sizes" page
fi
plan
