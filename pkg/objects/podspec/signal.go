package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// linuxSignals are the signals that a container can be asked to stop with, in order.
var linuxSignals = makeSignals()

func makeSignals() []corev1.Signal {
	names := strings.Fields("ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP " +
		"TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX")
	for i := 1; i <= 15; i++ {
		names = append(names, fmt.Sprintf("RTMIN+%d", i))
	}
	for i := 1; i <= 14; i++ {
		names = append(names, fmt.Sprintf("RTMAX-%d", i))
	}
	signals := make([]corev1.Signal, len(names))
	for i, name := range names {
		signals[i] = corev1.Signal("SIG" + name)
	}
	slices.Sort(signals)
	return signals
}

var windowsSignals = []corev1.Signal{"SIGKILL", "SIGTERM"}

func (v *validator) stopSignal(s corev1.Signal, at *field.Path) field.ErrorList {
	switch {
	case v.spec.OS == nil:
		return field.ErrorList{field.Forbidden(at, "may not be set for containers with empty `spec.os.name`")}
	case v.spec.OS.Name == corev1.Windows && !slices.Contains(windowsSignals, s):
		return field.ErrorList{field.NotSupported(at, s, windowsSignals)}
	case v.spec.OS.Name == corev1.Linux && !slices.Contains(linuxSignals, s):
		return field.ErrorList{field.NotSupported(at, s, linuxSignals)}
	}
	return nil
}
