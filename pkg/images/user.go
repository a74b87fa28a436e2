package images

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
)

// User is the user of an image's program. A part is an ID or a name of this machine.
type User struct {
	user, group string
}

// ParseUser reads USER, USER:GROUP, UID or UID:GID, as an image's config has it; "" is no user.
func ParseUser(text string) (User, error) {
	name, group, both := strings.Cut(text, ":")
	if text != "" && name == "" || both && (group == "" || strings.Contains(group, ":")) {
		return User{}, fmt.Errorf("%q is not USER, USER:GROUP, UID or UID:GID", text)
	}
	for _, part := range []string{name, group} {
		if id, err := strconv.ParseInt(part, 10, 64); err == nil && (id < 0 || id > maxID) {
			return User{}, fmt.Errorf("%q is not between 0 and %d", part, maxID)
		}
	}
	return User{user: name, group: group}, nil
}

// maxID is the highest ID that the API allows in runAsUser and runAsGroup.
const maxID = 1<<31 - 1

// Name returns the user's name if it is not an ID.
func (u User) Name() string {
	if _, err := strconv.ParseInt(u.user, 10, 64); err == nil {
		return ""
	}
	return u.user
}

// IDs returns the user's and the group's ID, nil without a user. Names are looked up in this machine's accounts. Without a group it is that
// of the user's account, or 0 without an account.
func (u User) IDs() (uid, gid *int64, err error) {
	if u.user == "" {
		return nil, nil, nil
	}
	account, err := u.account()
	if err != nil {
		return nil, nil, err
	}
	group := account.Gid
	if u.group != "" {
		if group, err = groupID(u.group); err != nil {
			return nil, nil, err
		}
	}
	if uid, err = parseID(account.Uid); err == nil {
		gid, err = parseID(group)
	}
	return uid, gid, err
}

func (u User) account() (*user.User, error) {
	if u.Name() != "" {
		return user.Lookup(u.user)
	}
	account, err := user.LookupId(u.user)
	if err != nil { // an ID needs no account
		account = &user.User{Uid: u.user, Gid: "0"}
	}
	return account, nil
}

func groupID(group string) (string, error) {
	if _, err := strconv.ParseInt(group, 10, 64); err == nil {
		return group, nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}

func parseID(text string) (*int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	return &id, err
}
