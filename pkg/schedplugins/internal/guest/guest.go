// Package guest runs WebAssembly modules that are scheduler plugins, with the ABI of sigs.k8s.io/kube-scheduler-wasm-extension: a module
// exports a function for each extension point, and imports functions by which it reads the pod and the nodes and returns reasons and lists.
// Objects are encoded as protobuf. A module has no access to files, the network, the environment or the time.
//
// A module has one instance, whose memory keeps what the functions of a pod's scheduling cycle share; see pool for the binding cycle. Time and
// memory are bounded: a call that takes too long ends, and the next one gets a new instance.
package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"golang.org/x/time/rate"
)

// Limits of a module.
const (
	MaxBytes  = 64 << 20 // of its file
	MaxMemory = 128 << 20

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
	Reserve        = "reserve"
	Unreserve      = "unreserve"
	Permit         = "permit"
	PreBind        = "prebind"
	Bind           = "bind"
	PostBind       = "postbind"
)

// signatures are the result types of the functions. None has parameters.
var signatures = map[string][]api.ValueType{
	Enqueue: nil, PreFilter: {api.ValueTypeI32}, AddPod: {api.ValueTypeI32}, RemovePod: {api.ValueTypeI32}, Filter: {api.ValueTypeI32},
	PostFilter: {api.ValueTypeI64}, PreScore: {api.ValueTypeI32}, Score: {api.ValueTypeI64}, NormalizeScore: {api.ValueTypeI32},
	Reserve: {api.ValueTypeI32}, Unreserve: nil, Permit: {api.ValueTypeI64}, PreBind: {api.ValueTypeI32}, Bind: {api.ValueTypeI32}, PostBind: nil,
}

// Limits bound the time of a module's start functions and of its other calls. Zero values mean the defaults, 5 seconds and one second.
type Limits struct{ Load, Call time.Duration }

const (
	loadTimeout = 5 * time.Second
	callTimeout = time.Second
)

// Config configures a module.
type Config struct {
	Limits
	Guest    string // what it reads with get_config
	Severity int32  // the least severity that it logs: 0 info, 1 warning, 2 error, 3 fatal
	Handle   Handle
	Nodes    NodeCache
}

// Module is a compiled module. It is safe for concurrent use.
type Module struct {
	pool
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	messages *rate.Limiter // that are logged
	limits   Limits
}

// New compiles a module and makes its first instance.
func New(ctx context.Context, binary []byte, config Config) (*Module, error) {
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithMemoryLimitPages(MaxMemory/pageSize))
	limits := Limits{cmp.Or(config.Load, loadTimeout), cmp.Or(config.Call, callTimeout)}
	m := &Module{runtime: runtime, messages: rate.NewLimiter(logRate, logBurst), limits: limits}
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
	if err := (&host{config, m.messages}).instantiate(ctx, m.runtime); err != nil {
		return err
	}
	m.shared = &instance{of: m}
	return m.shared.start(ctx)
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

// first returns the first function of a pod's scheduling cycle: it needs no memory of calls before.
func (m *Module) first() string {
	for _, name := range []string{PreFilter, Filter, PreScore, Score} {
		if m.Exports(name) {
			return name
		}
	}
	return ""
}

// ErrTimeout is the cause of a call's error that exceeded its time.
var ErrTimeout = errors.New("the module did not return in time")

// LogError logs the error of a function that returns none. Errors count among the module's messages, of which only some are logged.
func (m *Module) LogError(ctx context.Context, err error) {
	if m.messages.Allow() {
		slog.WarnContext(ctx, "scheduler plugin failed", "err", err)
	}
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
