package apiserver

import (
	"encoding/json"
	"errors"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/httpapi"
	"github.com/minikctl/minikctl/pkg/objects"
)

// BackupPath serves a backup of the store, in the format of package backup, to users that may get this path.
const BackupPath = httpapi.BackupPath

// Readable returns a function that returns an error for the stored value of a key that the server can't decode. The schemas of
// custom resources are not compiled in, so of those it checks only that they are JSON.
func Readable(resources []objects.Resource) func(key string, value []byte) error {
	rows := map[string]*objects.Resource{}
	for _, r := range objects.Each(resources) {
		rows[cache.Prefix(r.Names.GR())] = r
	}
	return func(key string, value []byte) error {
		prefix := cache.PrefixOf(key)
		if r := rows[prefix]; r != nil {
			_, err := cache.Decode(r, value)
			return err
		}
		if prefix != "" && !json.Valid(value) {
			return errors.New("the value is not JSON")
		}
		return nil
	}
}
