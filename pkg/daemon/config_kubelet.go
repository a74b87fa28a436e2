package daemon

import (
	"path/filepath"
)

// KubeletConfig holds the settings of the kubelets. Their names are those of a KubeletConfiguration.
type KubeletConfig struct {
	// StaticPodPath is a file with a static pod, or a folder with such files. Each node of the runtime process runs these pods on its own, and the
	// API shows their mirrors, called NAME-NODE. The files may change at any time. Default: none.
	StaticPodPath string `json:"staticPodPath,omitempty"`
}

// complete fills in the defaults and validates the settings.
func (k *KubeletConfig) complete() error {
	if k.StaticPodPath != "" { // a later start may have another working directory
		abs, err := filepath.Abs(k.StaticPodPath)
		if err != nil {
			return err
		}
		k.StaticPodPath = abs
	}
	return nil
}
