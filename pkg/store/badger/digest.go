package badger

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/cespare/xxhash/v2"

	"github.com/minikctl/minikctl/pkg/store"
)

// digest identifies a set of live objects by their keys and revisions. The order in which objects are added and removed has no
// effect, so each commit updates it by its own changes alone.
type digest struct {
	count uint64 // number of objects
	sum   uint64 // sum of their hashes, modulo 2^64
}

func (d *digest) add(key []byte, rev store.Revision) {
	d.count++
	d.sum += hash(key, rev)
}

func (d *digest) remove(key []byte, rev store.Revision) {
	d.count--
	d.sum -= hash(key, rev)
}

// hash mixes the hash of the key with the revision. The multiplication spreads the revision over all bits.
func hash(key []byte, rev store.Revision) uint64 {
	h := xxhash.Sum64(key) ^ uint64(rev)*0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	return h * 0xd6e8feb86659fd93
}

// apply updates the digest by one change.
func (d *digest) apply(ev store.Event) {
	key := []byte(ev.Key)
	if ev.PrevRev != 0 {
		d.remove(key, ev.PrevRev)
	}
	if ev.Value != nil {
		d.add(key, ev.Revision)
	}
}

// meta is the record that each commit writes at its last revision.
type meta struct {
	compacted store.Revision
	// complete is the revision from which on every revision up to the record's own has a change on disk. Below it a kill has left
	// out revisions of a commit that was not acknowledged.
	complete store.Revision
	live     digest
	digested bool // false: the record of a version of minikctl that kept no digest
}

// encode returns the record: the compacted revision as varint, and a tail of fixed length with its checksum.
func (m meta) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(m.compacted))
	b = binary.LittleEndian.AppendUint64(b, uint64(m.complete))
	b = binary.LittleEndian.AppendUint64(b, m.live.count)
	b = binary.LittleEndian.AppendUint64(b, m.live.sum)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeMeta(b []byte) (meta, error) {
	c, n := binary.Uvarint(b)
	if n <= 0 {
		return meta{}, errCorrupt
	}
	m := meta{compacted: store.Revision(c)}
	if len(b) == n {
		return m, nil
	}
	body := len(b) - crc32.Size
	if body != n+3*8 || crc32.Checksum(b[:body], castagnoli) != binary.LittleEndian.Uint32(b[body:]) {
		return meta{}, errCorrupt
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[n+8*i:]) }
	m.complete, m.live, m.digested = store.Revision(word(0)), digest{word(1), word(2)}, true
	return m, nil
}
