#!/bin/bash
# Plays recordings to the test client and holds what it was given against what the file has.
# usage: run.sh BIN CLIENT RECORDINGS MADE [threads]; BIN holds kernhes-play and mock/.
# threads: only what makes the threads of player, mock and client meet in another way, for ThreadSanitizer.
set -u
export KERNHES_LIB=$2
bin=$1 recordings=$3 made=$4 only=${5:-} failed=0 ran=0
got=$(mktemp) said=$(mktemp)
trap 'rm -f "$got" "$said"' EXIT

# field FILE NAME: a number or text of flat or nested JSON, the first of that name.
field() { grep -o "\"$2\": *\"\?[^,}\"]*" "$1" | head -1 | sed 's/.*: *"\?//'; }

fail() { echo "FAIL $*"; failed=$((failed + 1)); }

# play NAME STATUS VARIABLES ARGUMENTS...: what the client said is then in $got, what the player said in $said.
play() {
  local name=$1 want=$2 variables=$3; shift 3
  ran=$((ran + 1))
  : > "$got"
  { env $variables CLIENT_OUT="$got" timeout 120 "$bin/kernhes-play" --stats --quiet "$@" > "$said" 2>&1; } 2> /dev/null
  local status=$?
  [ $status = "$want" ] || { fail "$name: exit $status, want $want"; cat "$said"; }
}

# holds NAME FIELD=VALUE...: of the client's line.
holds() {
  local name=$1; shift
  for pair in "$@"; do
    local is; is=$(field "$got" "${pair%%=*}")
    [ "$is" = "${pair#*=}" ] || fail "$name: ${pair%%=*} is '$is', want '${pair#*=}'"
  done
}
took() { # the same of the player's line
  local name=$1; shift
  for pair in "$@"; do
    local is; is=$(field "$said" "${pair%%=*}")
    [ "$is" = "${pair#*=}" ] || fail "$name: ${pair%%=*} is '$is', want '${pair#*=}'"
  done
}
sound="malformed=0 early=0 unlaunched=0 zero=0 backward=0 too_long=0 future=0 other=0 back=0 unreadable=0 dropped=0"

for expect in "$recordings"/*.expect.json; do
  [ -z "$only" ] || expect=$recordings/tp2.rank1.expect.json
  file=${expect%.expect.json}.krec.zst name=$(basename "$expect" .expect.json)
  kernels=$(field "$expect" kernels) launches=$(field "$expect" launches) captured=$(field "$expect" captured_launches)
  copies=$(grep -o '"copies": *{[^}]*}' "$expect" | grep -o '": *[0-9]*' | tr -dc '0-9\n' | awk '{n += $1} END {print n}')
  whole="kernels=$kernels copies=$copies launches=$launches exits=$launches captured=$captured unnamed=0 rank=${name##*rank} $sound"
  play "$name" 0 A= "$file"
  holds "$name" $whole disorder=0
  hash=$(field "$got" hash)
  play "$name recorded" 0 A= --deliver recorded "$file"; holds "$name recorded" $whole hash=$hash
  play "$name reorder" 0 KERNHES_MOCK_FAULT=reorder=1 "$file"; holds "$name reorder" $whole hash=$hash
  play "$name recorded reorder" 0 KERNHES_MOCK_FAULT=reorder=1 --deliver recorded "$file"; holds "$name recorded reorder" $whole hash=$hash
  [ "$(field "$got" disorder)" -gt 100 ] || fail "$name: reorder makes no disorder"
  [ -z "$only" ] || break
done

for fault in short-buffers hold-back late-complete=20 flush-slow=50; do
  play "$fault" 0 KERNHES_MOCK_FAULT=$fault "$file"; holds "$fault" $whole hash=$hash
done
versions="12080=26 12090=28 130000=130000 130100=130100 130200=130200 130300=130300 130400=130400 130500=130500"
[ -z "$only" ] || versions="12080=26 130500=130500" # the oldest way to give buffers, and the newest
for version in $versions; do
  play "$version" 0 KERNHES_MOCK_HES=accepted --cupti ${version%=*} "$file"; holds "$version" $whole hash=$hash cupti=${version#*=} hes=1 states=0
done
play "HES late" 0 KERNHES_MOCK_HES=late --cupti 130300 "$file"; holds "HES late" $whole states=1
play "HES refused" 0 KERNHES_MOCK_HES=refused --cupti 130300 "$file"; holds "HES refused" $whole hes=0 states=1
play "HES refused, V1" 0 KERNHES_MOCK_HES=refused --cupti 130001 "$file"; holds "HES refused, V1" $whole hes=0 states=0

nth=$((kernels / 10))
if [ -z "$only" ]; then # faults: what they took is what the client lacks
  play drop 0 KERNHES_MOCK_FAULT=drop=10 "$file"; holds drop kernels=$((kernels - nth)) dropped=$nth; took drop dropped=$nth
  play silent 0 KERNHES_MOCK_FAULT=drop-silent=10 "$file"; holds silent kernels=$((kernels - nth)) dropped=0; took silent dropped_silent=$nth
  play zero 0 KERNHES_MOCK_FAULT=zero-end=10 "$file"; holds zero kernels=$kernels zero=$nth; took zero zero=$nth
  play start 0 KERNHES_MOCK_FAULT=zero-start=10 "$file"; holds start kernels=$kernels zero=$nth
  play backward 0 KERNHES_MOCK_FAULT=backward=10 "$file"; holds backward kernels=$kernels backward=$nth; took backward backward=$nth
  play long 0 KERNHES_MOCK_FAULT=long=10 "$file"; holds long kernels=$kernels too_long=$nth future=0; took long too_long=$nth
  play future 0 KERNHES_MOCK_FAULT=future=10 "$file"; holds future kernels=$kernels too_long=0 future=$nth; took future future=$nth
  play duplicate 0 KERNHES_MOCK_FAULT=duplicate=10 "$file"; holds duplicate kernels=$((kernels + nth)); took duplicate duplicated=$nth
  play unknown 0 KERNHES_MOCK_FAULT=unknown-kind=10 "$file"; holds unknown kernels=$kernels other=$nth malformed=0
  play truncate 0 KERNHES_MOCK_FAULT=truncate=5 "$file"
  holds truncate malformed=$(field "$said" truncated) kernels=$((kernels - $(field "$said" truncated)))
  play unreadable 0 KERNHES_MOCK_FAULT=unreadable "$file"; holds unreadable kernels=$kernels dropped=0
  [ "$(field "$got" unreadable)" -gt 0 ] || fail "unreadable: the counter could be read"
fi
play withhold 0 KERNHES_MOCK_FAULT=withhold=$nth "$file"; holds withhold kernels=$kernels hash=$hash; took withhold withheld=$nth
play wrap 0 KERNHES_MOCK_FAULT=wrap "$file"; holds wrap $whole
play busy 0 KERNHES_MOCK_FAULT=busy "$file"; took busy delivered_kernels=0 untraced=$((kernels + copies))
play missing 0 KERNHES_MOCK_FAULT=missing=cuptiActivityGetNextRecord "$file"; took missing delivered_kernels=0
play kill 137 KERNHES_MOCK_FAULT=kill-at=0.5 "$file"
play unacknowledged 3 CLIENT_UNACKNOWLEDGED=1 "$file"
play rounds 0 A= --rounds 3 "$file"
holds rounds kernels=$((3 * kernels)) copies=$((3 * copies)) launches=$((3 * launches - 2 * captured)) captured=$captured $sound
play paced 0 A= --speed 4 --rebase "$file"; holds paced $whole
play several 0 A= --rebase --speed 20 "$recordings"/tp2.rank*.krec.zst
ran=$((ran + 1))
CLIENT_OUT=$got timeout 120 "$bin/kernhes-play" --loop --speed recorded "$file" > "$said" 2>&1 &
parent=$!
until player=$(pgrep -P $parent) && grep -qs mock-cupti /proc/"$player"/task/*/comm; do sleep 0.1; done
sleep 1 # some of the play; how much does not matter
kill "$player"
wait $parent || fail "SIGTERM: exit $?"
holds SIGTERM unlaunched=0

play made 0 A= "$made"
holds made kernels=42 copies=3 launches=43 exits=43 captured=1 created=3 cloned=1 execs=1 pushes=6 pops=5 domains=2 registered=3 \
  schemas=2 payloads=10 contexts=2 threads=3 unnamed=1 dropped=3 early=0 unlaunched=0 malformed=0 rank=5
hash=$(field "$got" hash)
play "made, rank set" 0 "KERNHES_RANK=9" "$made"; holds "made, rank set" rank=9 hash=$hash
play "made, V2" 0 A= --cupti 130500 "$made"; holds "made, V2" kernels=42 copies=3 threads=3 hash=$hash
play "made, rounds" 0 A= --rounds 4 "$made"; holds "made, rounds" kernels=168 launches=169 created=3 pushes=24 pops=23
play "not a recording" 2 A= "$0"
play "no such file" 2 A= "$0.none"
play "cut short" 2 A= <(head -c 1000 "$made")
play "no such version" 2 A= --cupti 130600 "$made"
play "no such fault" 2 KERNHES_MOCK_FAULT=dorp=1 "$made"
play "no client" 1 KERNHES_LIB=/nonexistent "$made"

echo "play: $ran plays, $failed failed"
[ $failed = 0 ]
