# Completion of jobctl for fish, as ~/.config/fish/completions/jobctl.fish, or:
#   jobctl completion fish | source
function __jobctl_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (jobctl __complete words $words[2..-1] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :unfinished
            case '*'
                echo $line
        end
    end
end
complete -c jobctl -f -a '(__jobctl_complete)'
