package virtual

import (
	"sync"
	"weak"
)

// text holds the JSON of an entry: as it is, or as a part of a compressed block.
type text struct {
	plain []byte
	block *packed // nil: plain
	from  int     // where the JSON begins in the block
}

// json returns the JSON, which has length bytes.
func (t *text) json(length int) ([]byte, error) {
	if t.block == nil {
		return t.plain, nil
	}
	lines, err := t.block.open()
	if err != nil {
		return nil, err
	}
	return lines[t.from : t.from+length : t.from+length], nil
}

// packed is the compressed content of a block of a file, which the entries in it share. A list reads the entries of a block one
// after the other, so the last uncompressed content is reused until the next garbage collection.
type packed struct {
	bytes []byte

	mu   sync.Mutex
	last weak.Pointer[unpacked]
}

type unpacked struct{ lines []byte }

// open returns the uncompressed content.
func (p *packed) open() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.last.Value(); u != nil {
		return u.lines, nil
	}
	lines, err := unpack(p.bytes)
	if err != nil {
		return nil, err
	}
	p.last = weak.Make(&unpacked{lines})
	return lines, nil
}

// pack replaces the JSON of entries by the compressed block of a file that has their lines in order.
func pack(entries []*entry, block []byte) {
	shared, texts := &packed{bytes: block}, make([]text, len(entries))
	from := 0
	for i, e := range entries {
		texts[i] = text{block: shared, from: from}
		e.text.Store(&texts[i])
		from += e.length + len("\n")
	}
}
