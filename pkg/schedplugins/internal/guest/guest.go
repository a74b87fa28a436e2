// Package guest runs WebAssembly modules that are scheduler plugins, with the ABI of sigs.k8s.io/kube-scheduler-wasm-extension: a module
// exports a function for each extension point, and imports functions by which it reads the pod and the nodes and returns reasons and lists.
// Objects are encoded as protobuf. A module has no access to files, the network, the environment or the time.
//
// A module has one instance, whose memory keeps what the functions of a pod's scheduling cycle share. Time and memory are bounded: a call that
// takes too long ends, and the next one gets a new instance.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
	"golang.org/x/time/rate"
	"k8s.io/kube-scheduler/framework"
)

// Limits of a module.
const (
	MaxBytes    = 64 << 20 // of its file
	MaxMemory   = 128 << 20
	LoadTimeout = 5 * time.Second // of its start functions
	CallTimeout = time.Second

	pageSize  = 64 << 10
	maxOutput = 1 << 10 // bytes of standard output and error in the error of a call
)

// The functions that a module may export.
const (
	Enqueue        = "enqueue"
	PreFilter      = "prefilter"
	AddPod         = "addpod"
	RemovePod      = "removepod"
	Filter         = "filter"
	PostFilter     = "postfilter"
	PreScore       = "prescore"
	Score          = "score"
	NormalizeScore = "normalizescore"
)

// signatures are the result types of the functions. None has parameters.
var signatures = map[string][]api.ValueType{
	Enqueue: nil, PreFilter: {api.ValueTypeI32}, AddPod: {api.ValueTypeI32}, RemovePod: {api.ValueTypeI32}, Filter: {api.ValueTypeI32},
	PostFilter: {api.ValueTypeI64}, PreScore: {api.ValueTypeI32}, Score: {api.ValueTypeI64}, NormalizeScore: {api.ValueTypeI32},
}

// Config configures a module.
type Config struct {
	Guest    string                        // what it reads with get_config
	Severity int32                         // the least severity that it logs: 0 info, 1 warning, 2 error, 3 fatal
	Cluster  func() framework.SharedLister // the present snapshot
}

// Module is a compiled module. It is safe for concurrent use; calls run one after the other.
type Module struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule

	mu       sync.Mutex
	instance api.Module // nil: made by the next call
	output   output     // of the instance
}

// New compiles a module and makes its first instance.
func New(ctx context.Context, binary []byte, config Config) (*Module, error) {
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithMemoryLimitPages(MaxMemory/pageSize))
	m := &Module{runtime: runtime}
	if err := m.load(ctx, binary, config); err != nil {
		return nil, errors.Join(err, runtime.Close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

func (m *Module) load(ctx context.Context, binary []byte, config Config) (err error) {
	if m.compiled, err = m.runtime.CompileModule(ctx, binary); err != nil {
		return fmt.Errorf("wasm: error compiling guest: %w", err)
	}
	if err := m.check(); err != nil {
		return err
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return err
	}
	if err := (&host{config, rate.NewLimiter(logRate, logBurst)}).instantiate(ctx, m.runtime); err != nil {
		return err
	}
	return m.instantiate(ctx)
}

// check checks the module's exports.
func (m *Module) check() error {
	if _, ok := m.compiled.ExportedMemories()["memory"]; !ok {
		return errors.New("wasm: guest doesn't export memory[memory]")
	}
	found := false
	for name, f := range m.compiled.ExportedFunctions() {
		results, ok := signatures[name]
		if !ok {
			continue
		}
		found = true
		if len(f.ParamTypes()) > 0 || string(f.ResultTypes()) != string(results) {
			return fmt.Errorf("wasm: guest exports the wrong signature for func[%s]. should be () -> (%s)", name, typeNames(results))
		}
	}
	if !found {
		return errors.New("wasm: guest does not export any plugin functions")
	}
	return nil
}

func typeNames(types []api.ValueType) string {
	if len(types) == 0 {
		return ""
	}
	return api.ValueTypeName(types[0])
}

// Exports reports whether the module has a function.
func (m *Module) Exports(name string) bool {
	_, ok := m.compiled.ExportedFunctions()[name]
	return ok
}

// instantiate makes an instance: that of a Go or Rust library by _initialize, that of a command by _start.
func (m *Module) instantiate(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, LoadTimeout)
	defer cancel()
	m.output.reset()
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize", "_start").WithStdout(&m.output).WithStderr(&m.output)
	if m.instance, err = m.runtime.InstantiateModule(ctx, m.compiled, config); err != nil {
		m.instance = nil
		return m.failure("instantiate", LoadTimeout, err)
	}
	return nil
}

// ErrTimeout is the cause of a call's error that exceeded its time.
var ErrTimeout = errors.New("the module did not return in time")

// Call calls a function, which reads its arguments from v and writes its results to it. A function that fails loses the memory of its instance.
func (m *Module) Call(ctx context.Context, name string, v *Values) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.instance == nil {
		if err := m.instantiate(ctx); err != nil {
			return 0, err
		}
	}
	m.output.reset()
	limited, cancel := context.WithTimeout(context.WithValue(ctx, valuesKey{}, v), CallTimeout)
	defer cancel()
	out, err := m.instance.ExportedFunction(name).Call(limited)
	if err != nil {
		_ = m.instance.Close(context.WithoutCancel(ctx)) // it is not used any more
		m.instance = nil
		return 0, m.failure(name, CallTimeout, err)
	}
	if len(out) == 0 {
		return 0, nil
	}
	return out[0], nil
}

// failure returns the error of a function, with what the module has printed.
func (m *Module) failure(name string, limit time.Duration, err error) error {
	if exit, ok := errors.AsType[*sys.ExitError](err); ok && exit.ExitCode() == sys.ExitCodeDeadlineExceeded {
		return fmt.Errorf("wasm: %s error: %w (%v)", name, ErrTimeout, limit)
	}
	if detail := m.output.String(); detail != "" {
		return fmt.Errorf("wasm: %s error: %s\n%w", name, detail, err)
	}
	return fmt.Errorf("wasm: %s error: %w", name, err)
}

// Close frees the module.
func (m *Module) Close(ctx context.Context) error { return m.runtime.Close(ctx) }

// output keeps the first bytes that are written to it.
type output struct{ b []byte }

var _ io.Writer = (*output)(nil)

func (o *output) Write(p []byte) (int, error) {
	o.b = append(o.b, p[:min(len(p), maxOutput-len(o.b))]...)
	return len(p), nil
}

func (o *output) String() string { return string(o.b) }
func (o *output) reset()         { o.b = o.b[:0] }
