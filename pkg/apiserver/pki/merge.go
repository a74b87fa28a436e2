package pki

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/minikctl/minikctl/pkg/clock"
)

// MergeKubeconfig adds c's entries to a kubeconfig file, or creates the file. All else in it stays, including comments and
// unknown fields. c's context becomes the current one if there is none, or if current is set.
func MergeKubeconfig(path string, c *api.Config, current bool) error {
	return edit(path, func(file *kubeconfig) error {
		return file.merge(c, current)
	})
}

// ErrNoEntries is in the error of a RemoveKubeconfig that failed on a file without entries to remove.
var ErrNoEntries = errors.New("it has no context of this cluster")

// RemoveKubeconfig removes c's entries from a kubeconfig file. A context that the user has changed to other entries
// stays, as do a cluster and a user that another context refers to. A missing file is no error.
func RemoveKubeconfig(path string, c *api.Config) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := edit(path, func(file *kubeconfig) error {
		file.remove(c)
		return nil
	})
	if err != nil && !mayHaveContext(path, c) {
		return fmt.Errorf("%w (%w)", err, ErrNoEntries)
	}
	return err
}

// mayHaveContext reports whether a file that may be no valid YAML can have a context of c: its text has the context's name, or it can't be
// read. Programs that write kubeconfigs don't escape the characters of such names.
func mayHaveContext(path string, c *api.Config) bool {
	raw, err := os.ReadFile(path)
	if err != nil {
		return true
	}
	for name := range c.Contexts {
		if bytes.Contains(raw, []byte(name)) {
			return true
		}
	}
	return false
}

// edit changes a kubeconfig file atomically, under kubectl's lock. A symbolic link stays one.
func edit(path string, change func(*kubeconfig) error) (err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the directory of the kubeconfig: %w", err)
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	file, err := readKubeconfig(path)
	if err != nil {
		return err
	}
	if err := change(file); err != nil {
		return err
	}
	raw, err := file.encode()
	if err != nil {
		return fmt.Errorf("encode the kubeconfig %s: %w", path, err)
	}
	if bytes.Equal(raw, file.raw) {
		return nil
	}
	return writeFile(path, raw)
}

const (
	lockWait  = 20 * time.Millisecond
	lockTries = 100
)

// lock creates kubectl's lock file. It waits on the real clock, since another process holds the lock.
func lock(path string) (unlock func() error, err error) {
	for range lockTries {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0)
		if err == nil {
			return func() error { return os.Remove(path) }, f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("lock the kubeconfig: %w", err)
		}
		if err := clock.Sleep(context.Background(), clock.Real(), lockWait); err != nil { //nolint:forbidigo // the wait is short
			return nil, err
		}
	}
	return nil, fmt.Errorf("another process is changing the kubeconfig; if none is, remove %s", path)
}

// kubeconfig is a file as a YAML tree, which preserves unknown fields and comments.
type kubeconfig struct {
	raw    []byte
	tree   *yaml.Node // the mapping at the top
	config *api.Config
}

func readKubeconfig(path string) (*kubeconfig, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(raw)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	file := &kubeconfig{raw: raw, config: config}
	if file.tree, err = parseTree(raw); err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	return file, nil
}

func parseTree(raw []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, nil
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is no mapping")
	}
	return doc.Content[0], nil
}

func (k *kubeconfig) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(k.tree)
	return b.Bytes(), errors.Join(err, enc.Close())
}

// The lists of a kubeconfig.
const (
	clusterList = "clusters"
	userList    = "users"
	contextList = "contexts"
)

func (k *kubeconfig) merge(c *api.Config, current bool) error {
	c = c.DeepCopy()
	for name, e := range c.Contexts {
		if old := k.config.Contexts[name]; old != nil && e.Namespace == "" {
			e.Namespace = old.Namespace // what the user chose with "config set-context --namespace"
		}
	}
	raw, err := clientcmd.Write(*c)
	if err != nil {
		return fmt.Errorf("encode the kubeconfig: %w", err)
	}
	ours, err := parseTree(raw)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(ours.Content); i += 2 {
		switch key := ours.Content[i].Value; key {
		case clusterList, userList, contextList:
			list := k.list(key)
			for _, item := range ours.Content[i+1].Content {
				put(list, item)
			}
		case "current-context":
			if current || k.config.CurrentContext == "" {
				*k.field(key) = *ours.Content[i+1]
			}
		default: // apiVersion, kind, preferences
			if value(k.tree, key) == nil {
				*k.field(key) = *ours.Content[i+1]
			}
		}
	}
	return nil
}

func (k *kubeconfig) remove(c *api.Config) {
	for name, mine := range c.Contexts {
		theirs := k.config.Contexts[name]
		if theirs == nil || theirs.Cluster != mine.Cluster || theirs.AuthInfo != mine.AuthInfo {
			continue
		}
		delete(k.config.Contexts, name)
		k.drop(contextList, name)
		if k.config.CurrentContext == name {
			*k.field("current-context") = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle}
		}
	}
	clusters, users := map[string]bool{}, map[string]bool{}
	for _, e := range k.config.Contexts {
		clusters[e.Cluster], users[e.AuthInfo] = true, true
	}
	for name := range c.Clusters {
		if !clusters[name] {
			k.drop(clusterList, name)
		}
	}
	for name := range c.AuthInfos {
		if !users[name] {
			k.drop(userList, name)
		}
	}
}

// value returns a mapping's value of key, or nil.
func value(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// field returns the value of a top-level key, which it creates if missing.
func (k *kubeconfig) field(key string) *yaml.Node {
	if v := value(k.tree, key); v != nil {
		return v
	}
	v := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	k.tree.Content = append(k.tree.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, v)
	return v
}

// list returns a top-level list, which it creates if missing.
func (k *kubeconfig) list(key string) *yaml.Node {
	v := k.field(key)
	if v.Kind != yaml.SequenceNode {
		*v = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	}
	if len(v.Content) == 0 {
		v.Style = 0 // an empty [] becomes one item a line
	}
	return v
}

// put replaces the item of the same name, or appends it.
func put(list, item *yaml.Node) {
	name := value(item, "name")
	for i, old := range list.Content {
		if n := value(old, "name"); n != nil && name != nil && n.Value == name.Value {
			item.HeadComment, item.FootComment = old.HeadComment, old.FootComment
			list.Content[i] = item
			return
		}
	}
	list.Content = append(list.Content, item)
}

func (k *kubeconfig) drop(key, name string) {
	list := value(k.tree, key)
	if list == nil {
		return
	}
	for i, item := range list.Content {
		if n := value(item, "name"); n != nil && n.Value == name {
			list.Content = append(list.Content[:i], list.Content[i+1:]...)
			break
		}
	}
	if len(list.Content) == 0 {
		list.Style = yaml.FlowStyle
	}
}
