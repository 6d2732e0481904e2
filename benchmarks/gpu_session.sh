#!/usr/bin/env bash
# Everything that wants a GPU, in one go: the tests with their record, the demo twice (the second run must compile
# nothing), the benchmark rows. From the project's root:  benchmarks/gpu_session.sh OUT
# OUT gets session.log, tests.json, demo.json, demo-again.json, demo.png and rows.json.
# Each part has its own time limit; a part that fails does not stop the rest, and the exit status tells.
set -uo pipefail
out=${1:?where to write}
python=${PYTHON:-python3}
mkdir -p "$out"
log=$out/session.log
: >"$log"
status=0

part() {  # part NAME SECONDS COMMAND...
  local name=$1 limit=$2 code=0
  shift 2
  echo "== $name (at most $limit s)" | tee -a "$log"
  timeout --signal=INT --kill-after=10 "$limit" "$@" 2>&1 | tee -a "$log" | tail -n "${TAIL:-25}"
  code=${PIPESTATUS[0]}
  if [ "$code" -ne 0 ]; then
    echo "== $name: exit status $code" | tee -a "$log"
    status=1
  fi
}

part info 60 "$python" -m cudamath info
part tests "${TESTS_SECONDS:-300}" "$python" -m pytest -q --maxfail=60 -n "${WORKERS:-8}" \
  --dist worksteal -p benchmarks.record -m "gpu or multigpu" \
  --record "$out/tests.json"
[ -n "${TESTS_ONLY:-}" ] && exit $status
part demo 120 "$python" -m cudamath demo --out "$out" --json "$out/demo.json"
again=$(mktemp -d)
part demo-again 120 "$python" -m cudamath demo --epochs 2 --out "$again" --json "$out/demo-again.json"
part bench "${BENCH_SECONDS:-240}" "$python" -m benchmarks.run --device cuda --out "$out"
exit $status
