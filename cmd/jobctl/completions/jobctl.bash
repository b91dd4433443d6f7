# Completion of jobctl for bash, with or without the package bash-completion:
#   source <(jobctl completion bash)
_jobctl() {
  local line=${COMP_LINE:0:COMP_POINT} current before candidate about
  # What is completed is the word behind the last blank; bash itself replaces only what stands
  # behind the last of the characters at which it divides words, such as : and @.
  current=${line##*[[:space:]]}
  before=${current%"${current##*["$COMP_WORDBREAKS"]}"}
  before=${before%@} # what stands behind an @ it replaces with the @
  COMPREPLY=()
  while IFS=$'\t' read -r candidate about; do
    case $candidate in
      :files) compopt -o default 2>/dev/null; continue ;;
      :unfinished) compopt -o nospace 2>/dev/null; continue ;;
    esac
    printf -v candidate %q "$candidate"
    COMPREPLY+=("${candidate#"$before"}")
  done < <(jobctl __complete line "$line" 2>/dev/null)
}
complete -F _jobctl jobctl
