package badger

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/dgraph-io/badger/v4/y"

	"github.com/minikctl/minikctl/pkg/store"
)

// Report is the result of Check.
type Report struct {
	Objects  uint64
	Revision store.Revision
	Damaged  []Finding // objects that are there and can't be read
}

// Finding is an object that can't be read.
type Finding struct {
	Key string
	Err error
}

// Check verifies the store in dir as Open does, and reads each object: readable reports whether a value is one that the caller
// can decode. It changes nothing. The error is ErrLocked while the store is open, and ErrDamaged for a store that Open refuses.
func Check(dir string, readable func(key string, value []byte) error) (Report, error) {
	if !exists(dir) {
		if _, err := os.Stat(database(dir)); err != nil {
			return Report{}, fmt.Errorf("check store in %s: %w: the directory is missing or empty", dir, store.ErrDamaged)
		}
	}
	lock, err := acquire(lockFile(dir))
	if err != nil {
		return Report{}, fmt.Errorf("check store in %s: %w", dir, err)
	}
	defer lock.Close()
	g, err := readGuard(guardFile(dir))
	if err != nil {
		return Report{}, err
	}
	found, err := check(dir, g)
	if err != nil {
		return Report{}, fmt.Errorf("check store in %s: %w", dir, err)
	}
	report := Report{Objects: found.live.count, Revision: found.head}
	f, err := openFiles(database(dir))
	if err != nil {
		return report, err
	}
	defer f.close()
	err = recovered(func() error {
		report.Damaged = f.unreadable(readable)
		return f.damaged
	})
	return report, err
}

// unreadable returns the live objects with a value that does not match its checksum or that readable refuses.
func (f *files) unreadable(readable func(key string, value []byte) error) []Finding {
	var out []Finding
	var key []byte
	it := f.iterator()
	defer it.Close()
	for it.Seek(y.KeyWithTs([]byte(objectPrefix), ^uint64(0))); it.Valid(); it.Next() {
		k := y.ParseKey(it.Key())
		if !bytes.HasPrefix(k, []byte(objectPrefix)) {
			break
		}
		if bytes.Equal(k, key) {
			continue // an older version
		}
		key = append(key[:0], k...)
		v := it.Value()
		if v.Meta&bitDelete != 0 {
			continue
		}
		name := string(k[len(objectPrefix):])
		raw, err := f.valueOf(it.Key(), v)
		if err == nil {
			var value []byte
			if _, value, err = decode(raw); err == nil {
				err = readable(name, value)
			}
		}
		if err != nil {
			out = append(out, Finding{name, err})
		}
	}
	return out
}

// valueOf returns the value of an entry, from the value log if it is there.
func (f *files) valueOf(key []byte, v y.ValueStruct) ([]byte, error) {
	if v.Meta&bitPointer == 0 {
		return v.Value, nil
	}
	e, err := f.follow(key, v.Value)
	if err != nil {
		return nil, errors.Join(errCorrupt, err)
	}
	return e.value, nil
}
