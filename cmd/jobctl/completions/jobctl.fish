# Completion of jobctl for fish, as ~/.config/fish/completions/jobctl.fish, or:
#   jobctl completion fish | source
complete -c jobctl -f -a '(jobctl __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
