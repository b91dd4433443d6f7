package main

import (
	"errors"
	"math"
	"os"
	"os/user"
	"strconv"
	"strings"

	"jobd/cmd/internal/conf"
	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
)

// rootName is the only name that means root.
const rootName = "root"

// validateAccount finds the account that jobs have, and gives the variables that tell them of it, as cron's
// jobs are told. What a target says of its user says all of its account: the common group is not for it.
func (c *launcherConfig) validateAccount(set *conf.Set) (variables []string) {
	userKey, groupKey := c.prefix+"launcher.user", c.prefix+"launcher.group"
	if set.Given(userKey) && !set.Given(groupKey) {
		c.group = ""
	}
	bad := func(key, why string) {
		if set.Given(key) { // else it is told of the common one
			set.Bad(key, why)
		}
	}
	switch {
	case c.runs.Requests():
		for _, key := range []string{userKey, groupKey} {
			bad(key, "the launcher is "+serviceInWords(c.runs)+", whose jobs have the account of the service; it is allowed only beside a command")
		}
		return nil
	case c.user == "":
		bad(groupKey, "it is for launcher.user, which is not given; give that, too")
		return nil
	}
	account, home, err := userOf(c.user)
	if err != nil {
		bad(userKey, err.Error())
	}
	if c.group != "" {
		if account.GID, err = groupOf(c.group); err != nil {
			bad(groupKey, err.Error())
		}
	} else if err == nil && account.GID == noID {
		bad(userKey, "/etc/passwd has no uid "+c.user+", and does not tell its group; give launcher.group, too")
	}
	c.account = account
	return []string{"HOME=" + home, "LOGNAME=" + account.Name, "USER=" + account.Name, "SHELL=/bin/sh"}
}

// noID is no account's and no group's number.
const noID = math.MaxUint32

func idOf(text string) (id uint32, isNumber bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && n != noID
}

// userOf finds an account by its name or number in /etc/passwd, and its groups in /etc/group. A number need
// not be there.
func userOf(name string) (account *proc.Account, home string, err error) {
	account = &proc.Account{Name: name, GID: noID}
	uid, isNumber := idOf(name)
	lookUp := user.Lookup
	if isNumber {
		lookUp = user.LookupId
	}
	found, err := lookUp(name)
	if home = "/"; err == nil {
		account.Name, home = found.Username, found.HomeDir
		uid, _ = idOf(found.Uid)
		account.GID, _ = idOf(found.Gid)
		var groups []string
		groups, err = found.GroupIds()
		for _, group := range groups {
			gid, _ := idOf(group)
			account.Groups = append(account.Groups, gid)
		}
	}
	account.UID = uid
	switch {
	case uid == 0 && name != rootName && (isNumber || err == nil):
		return account, home, errors.New("that is root; allowed: another account, or the word root")
	case isNumber && errors.As(err, new(user.UnknownUserIdError)):
		return account, home, nil
	case errors.As(err, new(user.UnknownUserError)):
		err = errors.New("/etc/passwd has no account of that name; allowed: one that it has, or a uid")
	}
	return account, home, err
}

func groupOf(name string) (uint32, error) {
	gid, isNumber := idOf(name)
	if !isNumber {
		found, err := user.LookupGroup(name)
		if err != nil {
			return noID, errors.New("/etc/group has no group of that name; allowed: one that it has, or a gid")
		}
		gid, _ = idOf(found.Gid)
	}
	if gid == 0 && name != rootName {
		return noID, errors.New("that is root's group; allowed: another one, or the word root")
	}
	return gid, nil
}

// lacksRights says why this process can't start jobs of a launcher's account, and what mends it; "": it can.
func lacksRights(launcher jobexec.Launcher) (why, remedy string) {
	if launcher.Account == nil {
		return "", ""
	}
	why = "its jobs should run as user " + launcher.Account.Name + ", and this process "
	if missing := proc.MissingCapabilities(); len(missing) > 0 {
		return why + "lacks " + strings.Join(missing, ", "), "start jobd as root, or under systemd with job-accounts.conf (docs/systemd.md)"
	}
	if _, err := os.ReadFile("/proc/1/stat"); err != nil { // nor a job whose runner was killed
		return why + "sees no processes of other accounts in /proc", "mount it without hidepid, or with gid= and the group of jobd, and leave ProtectProc out of the unit"
	}
	return "", ""
}
