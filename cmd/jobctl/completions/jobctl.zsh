#compdef jobctl
# Completion of jobctl for zsh, in a folder of $fpath as _jobctl, or:
#   source <(jobctl completion zsh)
_jobctl() {
  local -a candidates=("${(@f)$(jobctl __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n $candidates ]] && compadd -a candidates || _files
}
if [[ ${funcstack[1]} == _jobctl ]]; then
  _jobctl "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
  compdef _jobctl jobctl
fi
