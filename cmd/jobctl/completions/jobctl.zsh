#compdef jobctl
# Completion of jobctl for zsh, in a folder of $fpath as _jobctl, or:
#   source <(jobctl completion zsh)
_jobctl() {
  local -a candidates suffix
  local candidate about
  while IFS=$'\t' read -r candidate about; do
    case $candidate in
      :files) _files; continue ;;
      :unfinished) suffix=(-S ''); continue ;;
    esac
    candidates+=("${candidate//:/\\:}:$about")
  done < <(jobctl __complete words "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  (( $#candidates )) && _describe jobctl candidates $suffix
}
if [[ ${funcstack[1]} == _jobctl ]]; then
  _jobctl "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
  compdef _jobctl jobctl
fi
