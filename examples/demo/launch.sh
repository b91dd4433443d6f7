#!/bin/sh
# The demo's launcher: notes that the job was started, then does what follows from its id.
#   launch.sh ORACLE ID
# The oracle is opened for appending, so that starts at the same moment don't overwrite each other.
echo "$2" >> "$1"
case $2 in
*[16]5) echo "job $2 cannot do it" >&2; exit 3 ;; # two in a hundred fail
521) exec sleep 300 ;;                             # the one that is killed
523) # the one that succeeds at its second attempt
	if [ "${JOBD_ATTEMPT:-1}" = 1 ]; then echo "job $2 fails at first" >&2; exit 1; fi
	echo "result of job $2" ;;
*) echo "result of job $2" ;;
esac
