#!/bin/sh
# What an answer costs, all of it, on a machine where nothing else runs: 18 minutes on two cores. Lines of JSON on standard output.
#
#   REPONDANT_DATA=… sh benchmarks/load/quiet.sh | tee /tmp/quiet.jsonl
#   REPONDANT_DATA=… sh benchmarks/load/quiet.sh start socket      # some parts: start socket http direct tokens shared
set -e
cd "$(dirname "$0")/../.."
python=.venv/bin/python
# As `make` does: compiled modules are kept.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="${PYTHONPYCACHEPREFIX:-$PWD/.venv/bytecode}"

said() { echo "{\"part\": \"$1\", \"at\": \"$(date -u +%H:%M:%S)\"}"; }

start() { # a minute and a half: check ≤ 1.5 s, ready ≤ 10 s, idle ≤ 300 MB (pss_mb)
  $python manage.py check > /dev/null
  for _ in 1 2 3 4 5; do
    $python -c 'import json, subprocess, sys, time
began = time.perf_counter()
subprocess.run([sys.executable, "manage.py", "check"], check=True, capture_output=True)
print(json.dumps({"check_seconds": round(time.perf_counter() - began, 2)}))'
  done
  $python -m benchmarks.idle.run
}

socket() { # four minutes: ≤ 35 ms an answer, p95 ≤ 200 ms; 40 a second for a minute; twice what it keeps up with
  $python -m benchmarks.load.run --rates 20 40 --seconds 60
  $python -m benchmarks.load.run --rates 80 --seconds 20
}

http() { # two minutes: within a tenth of the socket
  $python -m benchmarks.load.run --door http --rates 20 --seconds 60
}

direct() { # three minutes: ≤ 6 ms, 150 a second with p95 ≤ 100 ms. 2,000 questions, each once
  $python -m benchmarks.load.run --path direct --rates 20 150 --seconds 10
  $python -m benchmarks.load.run --path direct --door http --rates 20 150 --seconds 10
}

tokens() { # four minutes: ≤ 200, 120 and 90 µs at 1, 20 and 100 streams (answers so long that a turn's start counts little); 0.85 of direct
  $python -m benchmarks.streaming.run --streams 1 5 20 --tokens 1000 --repeats 1
  $python -m benchmarks.streaming.run --streams 100 500 --tokens 300 --repeats 1
  $python -m benchmarks.streaming.run --streams 100 --processes 2 --repeats 3
}

shared() { # three minutes: on PostgreSQL and Redis within 1.3 of the above
  $python -m benchmarks.load.run --rates 20 --seconds 60 --shared
  $python -m benchmarks.load.run --path direct --rates 20 150 --seconds 10 --shared
}

for part in ${*:-start socket http direct tokens shared}; do
  said "$part"
  "$part"
done 2> /dev/null
