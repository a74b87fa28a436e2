package authn

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Static holds the tokens of the token file. They are keyed by digest, so that the time of a lookup reveals nothing about a token.
// The zero value has none.
type Static struct {
	users map[[sha256.Size]byte]*user.DefaultInfo
}

// ReadTokens reads a token file, with a line token,user,uid,"group1,group2" for each token. The groups are optional.
func ReadTokens(path string) (Static, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Static{}, fmt.Errorf("read the token file: %w", err)
	}
	s, err := parseTokens(raw)
	if err != nil {
		return Static{}, fmt.Errorf("read the token file %s: %w", path, err)
	}
	return s, nil
}

// parseTokens reports every invalid line. Its errors contain no tokens.
func parseTokens(raw []byte) (Static, error) {
	r := csv.NewReader(bytes.NewReader(raw))
	r.FieldsPerRecord = -1
	s := Static{users: map[[sha256.Size]byte]*user.DefaultInfo{}}
	lines := map[[sha256.Size]byte]int{}
	var errs []error
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return s, errors.Join(errs...)
		}
		if bad := new(csv.ParseError); errors.As(err, &bad) {
			return s, errors.Join(append(errs, fmt.Errorf("line %d: %w", bad.Line, bad.Err))...)
		}
		if err != nil {
			return s, err
		}
		line, _ := r.FieldPos(0)
		info, err := tokenUser(record)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", line, err))
			continue
		}
		id := sha256.Sum256([]byte(record[0]))
		if first, ok := lines[id]; ok {
			errs = append(errs, fmt.Errorf("line %d: the same token as in line %d", line, first))
			continue
		}
		lines[id], s.users[id] = line, info
	}
}

func tokenUser(record []string) (*user.DefaultInfo, error) {
	if len(record) < 3 {
		return nil, fmt.Errorf("a line needs at least three columns (token, user name, user uid), found %d", len(record))
	}
	if len(record) > 4 {
		return nil, fmt.Errorf("a line has at most four columns, found %d; several groups need quotation marks around them", len(record))
	}
	if record[0] == "" {
		return nil, errors.New("the token is empty")
	}
	if record[1] == "" {
		return nil, errors.New("the user name is empty")
	}
	info := &user.DefaultInfo{Name: record[1], UID: record[2]}
	if len(record) == 4 && record[3] != "" {
		for _, g := range strings.Split(record[3], ",") {
			if g = strings.TrimSpace(g); g != "" {
				info.Groups = append(info.Groups, g)
			}
		}
	}
	return info, nil
}

func (s Static) find(token string) (*user.DefaultInfo, bool) {
	info, ok := s.users[sha256.Sum256([]byte(token))]
	return info, ok
}
