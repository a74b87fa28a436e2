package supervisor

import "os"

// keeping is what a keeper holds of a running container. Each file may be nil.
type keeping struct {
	process *os.File // the pidfd of its first process
	notify  *os.File // the notify descriptor of its filter
	call    *os.File // the memory of the call that is being answered
}

func (k keeping) close() {
	for _, f := range []*os.File{k.process, k.notify, k.call} {
		if f != nil {
			f.Close()
		}
	}
}
