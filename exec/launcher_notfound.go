package exec

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// notFound is what is wrong with a command that is nowhere in the PATH. Where a shell would
// understand it, it says which setting does the same.
func notFound(command string) string {
	const what, noShell = ": not found in PATH", "; no shell reads the launcher: "
	switch variable := assignedIn(command); {
	case variable != "": // the value may be a secret
		return variable + "=…" + what + noShell + "the key launcher.env." + variable + " sets the variable"
	case command == "cd":
		return command + what + noShell + "the key launcher.cwd is the folder that it runs in"
	case slices.Contains(builtins, command):
		return command + what + noShell + "launcher = sh -c '…' with launcher_split = shell has one"
	}
	return command + what
}

// builtins are words that only a shell knows as a command.
var builtins = []string{".", "source", "exec", "eval", "export", "set", "ulimit", "umask", "if", "for", "while"}

// assigns tells whether a command with a slash in it would set a variable, if a shell read it.
func (l Launcher) assigns(command string) bool {
	if assignedIn(command) == "" {
		return false
	}
	_, err := os.Stat(l.at(command))
	return err != nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// assignedIn is the variable that a command would set, if a shell read it; "": none.
func assignedIn(command string) string {
	name, _, found := strings.Cut(command, "=")
	if !found || !variableName.MatchString(name) {
		return ""
	}
	return name
}
