#!/usr/bin/env bash
# A client of jobd for bash: one file, nothing else is needed. Copy it.
#
#   jobd.sh insert TARGET [COLUMN=VALUE]...   prints an INSERT, for the transaction of a script
#   jobd.sh poke TARGET...                    after COMMIT: nobody sees the row earlier
#   jobd.sh run ID:TARGET...                  runs rows whose status is manual, waits; prints JSON
#   jobd.sh signal SIGNAL ID:TARGET           as TERM or 15; prints true if it was delivered
#   jobd.sh status                            prints JSON
#   jobd.sh request TYPE [DATA]               anything of docs/protocol.md; prints JSON
#
# Where jobd is, and the password, which no command line shows, are in the variables that jobctl
# reads, too: JOBCTL_HOST (127.0.0.1; of masters several: a,b:7082), JOBCTL_MASTER (true: a master listens there), JOBCTL_PORT
# (7080, a master's 7081), JOBCTL_PASSWORD. JOBCTL_TIMEOUT is 8, 8s, 500ms or 2m (10; run: none).
#
# Exit codes: 0 done, 1 a job failed or no signal was delivered, 2 wrong usage, 3 refused,
# 4 unreachable (nothing was asked), 5 timeout or lost (it may have been done), 6 this is no jobd.
set -u
trap '' PIPE # that a connection is gone tells the exit code of printf
export LC_ALL=C
eot=$'\004'
longest=$((64 << 20)) # bytes of an answer
host=${JOBCTL_HOST:-127.0.0.1}
case ${JOBCTL_MASTER:-} in
  1 | true) program=jobd-master port=${JOBCTL_PORT:-7081} ;;
  *) program=jobd port=${JOBCTL_PORT:-7080} ;;
esac

fail() { # EXIT-CODE TEXT
  printf 'jobd.sh: %s\n' "${2//[$'\001'-$'\037'$'\177']/?}" >&2
  exit "$1"
}
seconds() { # NAME VALUE, in REPLY; parts of a second count as one
  [[ $2 =~ ^([0-9]{1,8})(\.[0-9]+)?(ms|s|m|h|d)?$ && ${BASH_REMATCH[2]}:${BASH_REMATCH[3]} != .*:[mhd]* ]] ||
    fail 2 "$1: '$2' is no time: 10, 0.5, 8s and 2m are"
  REPLY=$((10#${BASH_REMATCH[1]} + (${#BASH_REMATCH[2]} > 0)))
  case ${BASH_REMATCH[3]} in
    ms) REPLY=$(((REPLY + 999) / 1000)) ;;
    m) REPLY=$((REPLY * 60)) ;;
    h) REPLY=$((REPLY * 3600)) ;;
    d) REPLY=$((REPLY * 86400)) ;;
  esac
}
seconds JOBCTL_TIMEOUT "${JOBCTL_TIMEOUT:-10}"
patience=$REPLY
seconds JOBCTL_PULSE "${JOBCTL_PULSE:-30}"
pulse=$((REPLY > 0 ? REPLY : 1)) # of silence, after which the daemon must answer a ping
complain() { fail "$1" "$program at $host:$port $2"; }

# What these make is in REPLY: a subshell for each of a thousand jobs would take seconds.
json() { # TEXT, as a JSON string
  local byte escape code
  REPLY=${1//\\/\\\\}
  REPLY=${REPLY//\"/\\\"}
  if [[ $REPLY == *[$'\001'-$'\037']* ]]; then
    for code in {1..31}; do
      printf -v escape '\\x%x' "$code"
      printf -v byte '%b' "$escape"
      printf -v escape '\\u%04x' "$code"
      REPLY=${REPLY//"$byte"/"$escape"}
    done
  fi
  REPLY="\"$REPLY\""
}
id() { # an id in JSON, whose numbers are exact up to 2⁵³−1 only
  REPLY=$1
  (($1 <= 9007199254740991 && $1 >= -9007199254740991)) || REPLY="\"$1\""
}
decoded() { # what is between the quotes of a JSON string, as text
  REPLY=${1//\\\"/\"}
  printf -v REPLY '%b' "${REPLY//\\\//\/}"
}

check() { # ID:TARGET...
  local job
  for job; do [[ $job =~ ^-?[1-9][0-9]{0,18}:. ]] || fail 2 "'$job' is not ID:TARGET, as 42:mail"; done
}
joined() { # JSON values, with commas between them
  local IFS=,
  printf %s "$*"
}
quoted() { # VALUE, as it stands in SQL under any sql_mode
  case $1 in
    *\\*) printf 'CONVERT(0x%s USING utf8mb4)' "$(printf %s "$1" | od -An -v -tx1 | tr -d ' \n')" ;;
    *) printf "'%s'" "${1//\'/\'\'}" ;;
  esac
}

insert() { # TARGET [COLUMN=VALUE]...
  local names='`target`, `time_created`' values column
  values="$(quoted "$1"), $(date +%s)"
  for column in "${@:2}"; do
    [[ $column =~ ^[A-Za-z0-9_]+= ]] || fail 2 "'$column' is not COLUMN=VALUE"
    names+=", \`${column%%=*}\`" values+=", $(quoted "${column#*=}")"
  done
  printf 'INSERT INTO jobs (%s) VALUES (%s);\n' "$names" "$values"
}

frame() { # NO TYPE DATA
  local type
  json "$2" && type=$REPLY
  json "${JOBCTL_PASSWORD:-}"
  REPLY="[0,{\"no\":$1,\"type\":$type,\"data\":$3,\"password\":$REPLY},\"codes\"]$eot"
}

# Asks, and puts the answer's data into $answer. The time limit is in seconds, 0: none.
request() { # TYPE DATA LIMIT
  local message error piece limit deadline wait pinged='' code messages
  frame 1 "$1" "$2"
  message=$REPLY
  if ((${#message} > 60000)); then # what is longer is taken only from those who gave the password
    frame 2 status null
    message=$REPLY$message
  fi
  limit=$((patience ? patience : 10))
  [ "${JOBD_OTHERS:-0}" = 1 ] && limit=0.3
  error=$(timeout "$limit" bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$host" "$port" 2>&1)
  case $? in
    0) ;;
    124) complain 4 "can't be reached: timed out" ;;
    *) error=${error%%$'\n'*} && complain 4 "can't be reached: ${error##*: }" ;;
  esac
  { exec 3<>"/dev/tcp/$host/$port"; } 2>/dev/null || complain 4 "can't be reached"
  if [ "${JOBD_OTHERS:-0}" = 1 ]; then # a process that is stopped takes connections, too
    { printf '[2]%s' "$eot" >&3; } 2>/dev/null
    IFS= read -r -N 4 -t 0.3 -u 3 piece 2>/dev/null || complain 4 "can't be reached: it answers no ping"
  fi
  { printf %s "$message" >&3; } 2>/dev/null || complain 5 "was lost before it answered $1"
  deadline=$((SECONDS + $3)) answer=''
  while :; do
    wait=$pulse limit=''
    (($3 > 0 && deadline - SECONDS < pulse)) && wait=$((deadline - SECONDS)) limit=yes
    ((wait > 0)) || complain 5 "did not answer $1 in time"
    # One byte is waited for; what is there behind it is not read byte by byte.
    IFS= read -r -N 1 -t "$wait" -u 3 piece 2>/dev/null
    code=$?
    if ((code > 128)); then # nothing came for so long
      [ "$limit" ] && complain 5 "did not answer $1 in time"
      [ "$pinged" ] && complain 5 "answers neither $1 nor a ping"
      pinged=yes
      { printf '[2]%s' "$eot" >&3; } 2>/dev/null
      continue
    fi
    if ((code != 0)); then
      [[ $answer =~ ^[[:space:]]*(\[|$) ]] || nonsense "$1"
      complain 5 "closed the connection before it answered $1"
    fi
    read -r -t 0 -u 3 && piece+=$(dd bs=65536 count=1 status=none <&3 2>/dev/null)
    pinged=''
    mapfile -t -d "$eot" messages <<<"$piece"
    answer+=${messages[0]%$'\n'}
    ((${#answer} <= longest)) || complain 6 "answers $1 with more than $longest bytes"
    for piece in "${messages[@]:1}"; do
      understood "$1" && return
      answer=${piece%$'\n'}
    done
  done
}

nonsense() { complain 6 "answers $1 with what is no message: ${answer:0:80}"; } # TYPE

# Takes the message in $answer, and tells whether it is the one that is waited for.
understood() { # TYPE
  local head=${answer:0:65536}
  if [[ $head =~ ^[[:space:]]*\[2\] ]]; then
    { printf '[3]%s' "$eot" >&3; } 2>/dev/null
  elif [[ $head =~ ^[[:space:]]*\[1,\{\"no\":[0-9]+,\"error\":\"((\\.|[^\"\\])*)\" ]]; then
    decoded "${BASH_REMATCH[1]}" # there is nothing else that it could be about
    complain 3 "refuses $1: $REPLY"
  elif [[ $head =~ ^[[:space:]]*\[1,\{\"no\":1,\"data\": ]]; then
    answer=${answer:${#BASH_REMATCH[0]}}
    answer=${answer%\}*}
    case $1:$answer in
      run-manual:[!{]* | send-signal:[!{]* | status:[!{]*) nonsense "$1" ;;
    esac
    return 0
  elif ! [[ $head =~ ^[[:space:]]*\[ ]]; then
    nonsense "$1"
  fi
  return 1
}

# The first of several hosts that answers a ping is asked, and no other one what that one may have been
# asked; a poke goes to all, since what one has taken is lost with it.
several() { # COMMAND ARG...
  local count=0 at own code=0 poked='' hosts pokes=()
  IFS=', ' read -r -a hosts <<<"$host"
  for at in "${hosts[@]}"; do
    own=$port
    export JOBD_OTHERS=$((++count < ${#hosts[@]}))
    [[ $at =~ ^(\[.+\]|[^:]+):([0-9]+)$ ]] && at=${BASH_REMATCH[1]} own=${BASH_REMATCH[2]}
    at=${at#[} && at=${at%]}
    if [ "$1" = poke ]; then
      JOBCTL_HOST=$at JOBCTL_PORT=$own "$BASH" "$0" "$@" &
      pokes+=($!)
    else
      JOBCTL_HOST=$at JOBCTL_PORT=$own "$BASH" "$0" "$@"
      code=$?
      ((code == 4)) || exit $code
    fi
  done
  for at in "${pokes[@]}"; do
    wait "$at" && poked=yes || code=$?
  done
  [ "$poked" ] && exit 0
  exit $code
}

jobs() { # MEMBERS ID:TARGET..., as JSON
  local job items=() target
  for job in "${@:2}"; do
    json "${job#*:}" && target=$REPLY
    id "${job%%:*}"
    items+=("{\"id\":$REPLY,\"target\":$target$1}")
  done
  REPLY="{\"jobs\":[$(joined "${items[@]}")]}"
}

run() { # ID:TARGET...
  local job ids=()
  check "$@"
  if [ $program = jobd ]; then
    for job; do id "${job%%:*}" && ids+=("$REPLY"); done
    REPLY="{\"ids\":[$(joined "${ids[@]}")]}"
  else
    jobs '' "$@"
  fi
  [ "${JOBCTL_TIMEOUT:-}" ] || patience=0
  request run-manual "$REPLY" "$patience"
  printf '%s\n' "$answer"
  # A quote inside of what a job wrote has a backslash before it: these are members.
  [[ $answer == *'"result":"fail"'* || $answer == *'"errors":{"'* ]] && exit 1
  exit 0
}

send_signal() { # SIGNAL ID:TARGET
  local number=$1
  [[ $1 =~ ^[0-9]+$ ]] || number=$(kill -l "$1" 2>/dev/null) || fail 2 "'$1' is no signal: TERM and 15 are"
  check "$2"
  jobs ",\"signal\":$number" "$2"
  [ $program = jobd ] && REPLY="{\"jobs\":{\"${2%%:*}\":$number}}"
  request send-signal "$REPLY" "$patience"
  if [[ $answer =~ \"errors\":\{[^:]*:\"((\\.|[^\"\\])*)\" ]]; then
    decoded "${BASH_REMATCH[1]}"
    complain 3 "refuses send-signal: $REPLY"
  fi
  [[ $answer == *:true* ]] && echo true && exit 0
  echo false
  exit 1
}

poke() { # TARGET...
  local target names=() kind=poll
  for target; do json "$target" && names+=("$REPLY"); done
  [ $program = jobd ] || kind=poke
  [ "${JOBD_OTHERS:-0}" = 1 ] && patience=1
  request $kind "{\"targets\":[$(joined "${names[@]}")]}" "$patience"
}

command=${1:-}
[[ $host == *,* && $command =~ ^(poke|run|signal|status|request)$ ]] && several "$@"
case $command:$# in
  insert:[2-9] | insert:[1-9][0-9]) insert "${@:2}" ;;
  poke:[2-9]* | poke:1?*) poke "${@:2}" ;;
  run:[2-9]* | run:1?*) run "${@:2}" ;;
  signal:3) send_signal "${@:2}" ;;
  status:1)
    data=null
    [ $program = jobd ] || data='{"poll_workers":true}'
    request status "$data" "$patience"
    printf '%s\n' "$answer"
    ;;
  request:[23])
    request "$2" "${3:-null}" "$patience"
    printf '%s\n' "$answer"
    ;;
  *)
    sed -n '2,/^set/ s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
