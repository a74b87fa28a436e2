package guest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// instance is an instance of a module, with its own memory. Its calls run one after the other.
type instance struct {
	of *Module

	mu     sync.Mutex
	module api.Module // nil: made by the next call
	losses int        // how often the memory was lost
	begun  uint32     // bytes of the memory after the start
	output output
}

// start makes the module: that of a Go or Rust library by _initialize, that of a command by _start.
func (i *instance) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, i.of.limits.Load)
	defer cancel()
	i.output.reset()
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize", "_start").WithStdout(&i.output).WithStderr(&i.output)
	if i.module, err = i.of.runtime.InstantiateModule(ctx, i.of.compiled, config); err != nil {
		i.module = nil
		return i.failure("instantiate", i.of.limits.Load, err)
	}
	i.begun = i.module.Memory().Size()
	return nil
}

// full reports whether the memory has grown close to its limit. A memory never shrinks, and the garbage collector of a module in Go gets no time.
func (i *instance) full() bool {
	return i.module != nil && i.begun <= MaxMemory/2 && i.module.Memory().Size() > MaxMemory/4*3
}

// call calls a function, which reads its arguments from v and writes its results to it. A function that fails loses the instance's memory.
func (i *instance) call(ctx context.Context, name string, v *Values) (uint64, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.full() && name == i.of.first() {
		i.drop(ctx)
	}
	if i.module == nil {
		if err := i.start(ctx); err != nil {
			return 0, err
		}
	}
	i.output.reset()
	limited, cancel := context.WithTimeout(context.WithValue(ctx, valuesKey{}, v), i.of.limits.Call)
	defer cancel()
	out, err := i.module.ExportedFunction(name).Call(limited)
	if err != nil {
		i.drop(ctx)
		return 0, i.failure(name, i.of.limits.Call, err)
	}
	if len(out) == 0 {
		return 0, nil
	}
	return out[0], nil
}

// drop frees the module. The caller holds mu, or is the only user.
func (i *instance) drop(ctx context.Context) {
	if i.module != nil {
		_ = i.module.Close(context.WithoutCancel(ctx)) // it is not used any more
		i.module = nil
		i.losses++
	}
}

// size returns the bytes of the module's memory.
func (i *instance) size() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.module == nil {
		return 0
	}
	return int(i.module.Memory().Size())
}

// failure returns the error of a function, with what the module has printed.
func (i *instance) failure(name string, limit time.Duration, err error) error {
	if exit, ok := errors.AsType[*sys.ExitError](err); ok && exit.ExitCode() == sys.ExitCodeDeadlineExceeded {
		return fmt.Errorf("wasm: %s error: %w (%v)", name, ErrTimeout, limit)
	}
	if detail := i.output.String(); detail != "" {
		return fmt.Errorf("wasm: %s error: %s\n%w", name, detail, err)
	}
	return fmt.Errorf("wasm: %s error: %w", name, err)
}
