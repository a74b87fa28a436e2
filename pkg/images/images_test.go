package images

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	s, err := New(Config{Map: map[string]Source{
		"nginx":                  {Image: "minikctl.dev/web"},
		"nginx:1.2":              {Entrypoint: []string{"/bin/one-two", "-x"}},
		"ghcr.io/shop/cart":      {Root: dir},
		"docker.io/library/busy": {Image: "minikctl.dev/pause"},
		"tools/cart":             {Entrypoint: []string{"/bin/sh"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		name       string
		command    []string
		entrypoint []string
		root       string
		reason     string
		program    string
		err        error
	}{
		"built in":               {name: "minikctl.dev/web", entrypoint: []string{"minikctl.dev/web"}},
		"built in, latest":       {name: "minikctl.dev/pause:latest", entrypoint: []string{"minikctl.dev/pause"}},
		"built in, another tag":  {name: "minikctl.dev/web:v9", err: ErrNotFound},
		"mapped":                 {name: "nginx", entrypoint: []string{"minikctl.dev/web"}, reason: "ImageMapped"},
		"mapped, any tag":        {name: "nginx:1.27-alpine", entrypoint: []string{"minikctl.dev/web"}, reason: "ImageMapped"},
		"mapped, that tag":       {name: "nginx:1.2", entrypoint: []string{"/bin/one-two", "-x"}, reason: "ImageMapped"},
		"mapped, long name":      {name: "docker.io/library/nginx:1.2", entrypoint: []string{"/bin/one-two", "-x"}, reason: "ImageMapped"},
		"mapped, short name":     {name: "busy:3", entrypoint: []string{"minikctl.dev/pause"}, reason: "ImageMapped"},
		"mapped to a directory":  {name: "ghcr.io/shop/cart:5", entrypoint: []string{"minikctl.dev/web"}, root: dir, reason: "ImageMapped"},
		"a directory":            {name: "dir:" + dir, entrypoint: []string{"minikctl.dev/web"}, root: dir},
		"a relative directory":   {name: "dir:site", err: ErrInvalidName},
		"no such directory":      {name: "dir:/does/not/exist", err: ErrNotFound},
		"another registry":       {name: "ghcr.io/library/nginx", err: ErrNotFound},
		"unknown":                {name: "ghost", err: ErrNotFound},
		"unknown with a command": {name: "ghost", command: []string{"sleep", "1"}, reason: "HostCommand"},
		"upper case":             {name: "Ghost", err: ErrInvalidName},
		"two tags":               {name: "a:b:c", err: ErrInvalidName},
		"an ID":                  {name: strings.Repeat("0a", 32), err: ErrInvalidName},
		"its program by the image's name": {name: "tools/cart", command: []string{"/opt/cart", "-v"}, entrypoint: []string{"/bin/sh"},
			reason: "ImageMapped", program: "/opt/cart"},
		"its program by its own name": {name: "tools/cart", command: []string{"/opt/sh"}, entrypoint: []string{"/bin/sh"}, reason: "ImageMapped", program: "/opt/sh"},
		"another program":             {name: "tools/cart", command: []string{"/opt/cat"}, entrypoint: []string{"/bin/sh"}, reason: "ImageMapped"},
		"a program of the machine":    {name: "tools/cart", command: []string{"/bin/sh"}, entrypoint: []string{"/bin/sh"}, reason: "ImageMapped"},
		"a program in PATH":           {name: "tools/cart", command: []string{"cart"}, entrypoint: []string{"/bin/sh"}, reason: "ImageMapped"},
		"mapped, with a digest":       {name: "nginx@sha256:" + strings.Repeat("0a", 32), entrypoint: []string{"minikctl.dev/web"}, reason: "ImageMapped"},
		"empty":                       {name: "", err: ErrInvalidName},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			got, err := s.Resolve(test.name, test.command)
			if !errors.Is(err, test.err) {
				t.Fatalf("got error %v, want %v", err, test.err)
			}
			if !slices.Equal(got.Entrypoint, test.entrypoint) || got.Root != test.root || got.Reason != test.reason {
				t.Errorf("got %+v, want entrypoint %q, root %q and reason %q", got, test.entrypoint, test.root, test.reason)
			}
			if got.Program != test.program {
				t.Errorf("got program %q, want %q", got.Program, test.program)
			}
			if err == nil && !strings.Contains(got.ID, "@sha256:") {
				t.Errorf("got ID %q", got.ID)
			}
		})
	}
}

func TestHostCommandsForbidden(t *testing.T) {
	s, err := New(Config{NoHostCommands: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ghost", "dir:/"} {
		if _, err := s.Resolve(name, []string{"sleep"}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "hostCommands: false") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		key  string
		src  Source
		want string
	}{
		"no such image":     {"a", Source{Image: "minikctl.dev/nope"}, "is not one of the built-in images [minikctl.dev/pause minikctl.dev/web]"},
		"no such directory": {"a", Source{Root: "/does/not/exist"}, "no such file"},
		"nothing":           {"a", Source{Args: []string{"x"}}, "one of image, dir and entrypoint is needed"},
		"two things":        {"a", Source{Image: "minikctl.dev/web", Entrypoint: []string{"x"}}, "image: may not be given with dir or entrypoint"},
		"no program":        {"a", Source{Entrypoint: []string{""}}, "entrypoint[0]: the program is needed"},
		"no variable":       {"a", Source{Entrypoint: []string{"x"}, Env: []string{"=1"}}, `env: "" is not the name of a variable`},
		"no user":           {"a", Source{Entrypoint: []string{"x"}, User: ":5"}, `user: ":5" is not USER, USER:GROUP, UID or UID:GID`},
		"a high user":       {"a", Source{Entrypoint: []string{"x"}, User: "4294967296"}, "is not between 0 and 2147483647"},
		"no working dir":    {"a", Source{Entrypoint: []string{"x"}, Dir: "/does/not/exist"}, "workingDir: stat /does/not/exist: no such file"},
		"bad name":          {"A", Source{Image: "minikctl.dev/web"}, "invalid image name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Map: map[string]Source{test.key: test.src}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := New(Config{Map: map[string]Source{"tools": {Root: dir}, "nginx": {Image: "minikctl.dev/web"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"tools:1": nil, DirPrefix + dir: nil, DirPrefix + dir + "/missing": ErrNotFound, "nginx": ErrNoFiles, "no-such:2": ErrNotFound, "A": ErrInvalidName,
	} {
		img, err := s.Files(name)
		if !errors.Is(err, want) || want == nil && img.Root != dir {
			t.Errorf("%s: got %+v, %v, want %v", name, img, err, want)
		}
		if want != nil && !strings.HasPrefix(name, DirPrefix) && want != ErrInvalidName && !strings.Contains(err.Error(), "map it to a directory") {
			t.Errorf("%s: the error %v gives no advice", name, err)
		}
	}
}
