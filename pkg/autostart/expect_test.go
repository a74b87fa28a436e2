package autostart

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestStartsDaemon(t *testing.T) {
	home := t.TempDir()
	t.Setenv("MINIKCTL_HOME", home)
	for _, name := range []string{"two", "three"} {
		if err := errors.Join(os.Mkdir(home+"/"+name, 0o700), os.WriteFile(home+"/"+name+"/"+LockFile, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"minikctl get pods":                        "minikctl",
		"/usr/bin/minikctl get pods":               "minikctl",
		"minikctl -n kube-system get pods":         "minikctl",
		"minikctl --name two get pods":             "two",
		"minikctl get pods --name=two":             "two",
		"minikctl apply -f x --name two":           "two",
		"minikctl exec x -- sh --help":             "minikctl",
		"minikctl up -d":                           "minikctl",
		"minikctl up --nodes 3 --detach":           "minikctl",
		"minikctl up --name=two -d":                "two",
		"minikctl up --name=new -d":                "new",
		"minikctl get pods --name=new":             "", // there is no such cluster
		"minikctl up":                              "",
		"minikctl up --detach=false":               "",
		"minikctl up -d --help":                    "",
		"minikctl":                                 "",
		"minikctl version":                         "",
		"minikctl help get":                        "",
		"minikctl completion bash":                 "",
		"minikctl __complete get po":               "",
		"minikctl down":                            "",
		"minikctl status":                          "",
		"minikctl gett pods":                       "",
		"minikctl get pods -h":                     "",
		"minikctl get pods --kubeconfig x":         "",
		"minikctl get pods --kubeconfig=x":         "",
		"minikctl -s https://h get pods":           "",
		"minikctl --context other get pods":        "",
		"kubectl get pods":                         "",
		"/usr/bin/kubectl get pods":                "",
		"minikctl: supervisor /home/x/.minikctl/y": "",
	} {
		name, ok := StartsDaemon(strings.Split(line, " "))
		if !ok {
			name = ""
		}
		if name != want {
			t.Errorf("%s: got %q, want %q", line, name, want)
		}
	}
	t.Setenv("MINIKCTL_NAME", "three")
	if name, ok := StartsDaemon([]string{"minikctl", "get", "pods"}); name != "three" || !ok {
		t.Errorf("with MINIKCTL_NAME: got %q, %v", name, ok)
	}
}

func TestHome(t *testing.T) {
	t.Setenv("MINIKCTL_HOME", "")
	t.Setenv("HOME", "/home/x/")
	if got := Home(); got != "/home/x/.minikctl" {
		t.Errorf("got %q", got)
	}
	t.Setenv("MINIKCTL_HOME", "/elsewhere")
	if got := Home(); got != "/elsewhere" {
		t.Errorf("got %q", got)
	}
}
