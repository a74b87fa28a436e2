package remove

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const dirVariable = "REMOVE_TEST_DIR"

// TestReadOnlyDirs removes directories without write and read permission. Root has every permission, so the test starts itself again as an
// ordinary user.
func TestReadOnlyDirs(t *testing.T) {
	if os.Getuid() == 0 {
		rerun(t)
		return
	}
	dir := os.Getenv(dirVariable)
	if dir == "" {
		dir = t.TempDir()
	}
	outside := filepath.Join(dir, "outside")
	if err := os.Mkdir(outside, 0o500); err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func(path string) error{
		"All": All,
		"In": func(path string) error {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			defer root.Close()
			return In(root, filepath.Base(path))
		},
	} {
		path := filepath.Join(dir, "removed")
		deep := filepath.Join(path, "a", "b")
		err := errors.Join(os.MkdirAll(deep, 0o700), os.WriteFile(filepath.Join(deep, "file"), nil, 0o400), os.Symlink(outside, filepath.Join(deep, "link")),
			os.Chmod(deep, 0), os.Chmod(filepath.Dir(deep), 0o500), os.Chmod(path, 0o500))
		if err != nil {
			t.Fatal(err)
		}
		if err := remove(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is left: %v", name, err)
		}
		if err := remove(path); err != nil {
			t.Errorf("%s of nothing: %v", name, err)
		}
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("the directory outside: %v, %v", info, err)
	}
}

// rerun runs the test in a process of an ordinary user.
func rerun(t *testing.T) {
	dir, err := os.MkdirTemp("", "minikctl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "test")
	if err := errors.Join(os.WriteFile(program, b, 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), dirVariable+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
