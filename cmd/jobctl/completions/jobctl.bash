# Completion of jobctl for bash:
#   source <(jobctl completion bash)
_jobctl() {
  mapfile -t COMPREPLY < <(jobctl __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _jobctl jobctl
