package badger

import "github.com/minikctl/minikctl/pkg/store"

// Release drops the recent changes from memory. Watches read them from the database.
func (s *Store) Release() { s.log.Trim(store.Revision(s.head.Load())) }
