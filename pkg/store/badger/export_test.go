package badger

// Verify verifies the files of the store in dir.
func Verify(dir string) error {
	g, err := readGuard(guardFile(dir))
	if err == nil {
		_, err = check(dir, g)
	}
	return err
}

// Options are Badger's options, and ObjectKey and Encode return an object as Badger stores it.
var (
	Options   = badgerOptions
	ObjectKey = objectKey
	Encode    = encode
)

// SyncParents makes the names of a directory and of those above it durable.
var SyncParents = syncParents

// NewTables returns how many tables wait on the first level of s.
func NewTables(s *Store) int { return s.db.Levels()[0].NumTables }

// Latest returns how many entries s keeps for later writes.
func Latest(s *Store) int {
	s.latest.mu.Lock()
	defer s.latest.mu.Unlock()
	return len(s.latest.entries)
}
