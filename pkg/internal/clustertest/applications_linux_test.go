package clustertest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestApplications runs applications of several parts, whose images are mapped to programs of this machine: as root, as an ordinary user, and
// where creating a namespace fails.
func TestApplications(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("too slow for -short")
	}
	dir := t.TempDir()
	program, launcher := filepath.Join(dir, "minikctl"), filepath.Join(dir, "launcher")
	buildMinikctl(t, program)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	linkFile(t, self, launcher)
	for _, name := range []string{"guestbook.py", "postgres.sh"} {
		path := filepath.Join(dir, name)
		copyFile(t, filepath.Join("testdata/applications", name), path)
		open(t, path)
	}
	open(t, program)
	open(t, launcher)
	nobody := account(t)
	parallel(t, "as root", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("this user is not root")
		}
		runApplications(t, &tenant{T: t, command: []string{program}, programs: dir})
	})
	parallel(t, "as an ordinary user", func(t *testing.T) {
		runApplications(t, &tenant{T: t, command: []string{program}, programs: dir, cred: nobody})
	})
	parallel(t, "without namespaces", func(t *testing.T) {
		runApplications(t, &tenant{T: t, command: []string{launcher, program}, programs: dir, cred: nobody, confined: true})
	})
}

// account returns the credentials of an ordinary user that has an account, which PostgreSQL needs; nil: this process's own.
func account(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func runApplications(t *testing.T, u *tenant) {
	parallel(t, "guestbook", func(t *testing.T) {
		need(t, "redis-server", "python3")
		testGuestbook(u.home(t, fmt.Sprintf(`images:
  docker.io/redis:6.0.5: [redis-server, --protected-mode, "no", --save, "", --repl-diskless-sync-delay, "0"]
  us-docker.pkg.dev/google-samples/containers/gke/gb-redis-follower:v2: [redis-server, --protected-mode, "no", --save, "", --replicaof, redis-leader, "6379"]
  gcr.io/google-samples/gb-frontend: [python3, %s/guestbook.py]
`, u.programs)))
	})
	parallel(t, "web", func(t *testing.T) {
		need(t, "curl")
		testWeb(u.home(t, "clock: fast:20\n"))
	})
	parallel(t, "rolling update", func(t *testing.T) {
		need(t, "curl")
		testRollingUpdate(u.home(t, ""))
	})
	parallel(t, "daemon kills", func(t *testing.T) {
		need(t, "curl")
		testDaemonKills(u.home(t, ""))
	})
	parallel(t, "restarts", func(t *testing.T) { testRestarts(u.home(t, "")) })
	parallel(t, "databases", func(t *testing.T) {
		need(t, "redis-server", "redis-cli", "psql")
		if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) == 0 {
			t.Skip("PostgreSQL's server is not installed")
		}
		testDatabases(u.home(t, fmt.Sprintf("images:\n  postgres: [%s/postgres.sh]\n  redis: [redis-server]\n", u.programs)))
	})
}

func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip(err)
		}
	}
}

// testGuestbook stores a message at the leader and reads it from a follower, by the web page.
func testGuestbook(u *tenant) {
	u.run("apply", "-f", u.manifest("guestbook.yaml", nil), "--wait", "--timeout", "120s")
	page := "http://127.0.0.1:" + u.run("get", "service", "frontend", "-o", "jsonpath={.spec.ports[0].nodePort}") + "/?key=messages&"
	u.eventually("+OK", func() string { return fetch(page + "cmd=set&value=hello") })
	u.eventually("hello", func() string { return fetch(page + "cmd=get") })
	u.run("rollout", "restart", "deployment/redis-leader") // the followers find the new leader by the Service's name
	u.run("rollout", "status", "deployment/redis-leader", "--timeout", "60s")
	u.eventually("+OK", func() string { return fetch(page + "cmd=set&value=again") })
	u.eventually("again", func() string { return fetch(page + "cmd=get") })
}

// testDatabases checks that data survives the deletion of the pods, the death of the daemon and a restart of the cluster.
func testDatabases(u *tenant) {
	manifest := u.manifest("databases.yaml", map[string]string{
		"value: /var/lib/": "value: $(MINIKCTL_ROOT)/var/lib/", "--dir, /data": "--dir, $(MINIKCTL_ROOT)/data",
	})
	u.run("apply", "-f", manifest, "--wait", "--timeout", "120s")
	sql := func(statement string) []string {
		return []string{"exec", "postgres-0", "--", "env", "PGPASSWORD=s3cret", "psql", "-qtA", "-h", "postgres", "-U", "postgres", "-c", statement}
	}
	u.run(sql("create table greetings (text text); insert into greetings values ('hello')")...)
	u.run("exec", "redis-1", "--", "redis-cli", "-h", "redis-0.redis", "set", "greeting", "hello")
	check := func(after string) {
		u.Helper()
		for _, args := range [][]string{sql("select text from greetings"), {"exec", "redis-1", "--", "redis-cli", "-h", "redis-0.redis", "get", "greeting"}} {
			u.eventually("hello", func() string {
				out, err := u.output(args...)
				if err != nil {
					return after + ": " + err.Error() + ": " + out
				}
				return strings.TrimSpace(out)
			})
		}
	}
	check("at first")
	u.run("delete", "pod", "postgres-0", "redis-0")
	check("after the pods were deleted")
	u.kill()
	u.run("up", "-d")
	check("after the daemon was killed")
	u.run("down")
	u.run("up", "-d")
	check("after a restart of the cluster")
	u.run("down") // PostgreSQL removes its shared memory at SIGTERM, and down --purge kills it
}

// tenant is a user of this machine with a cluster.
type tenant struct {
	*testing.T
	command  []string            // minikctl
	programs string              // the directory of the applications' programs
	cred     *syscall.Credential // nil: this process's own
	confined bool                // creating a namespace fails

	dir string // of the user
}

// home returns u with an empty home directory and a running cluster, which ends with the test.
func (u *tenant) home(t *testing.T, config string) *tenant {
	own, work := *u, t.TempDir()
	own.T, own.dir = t, filepath.Join(work, "home")
	if err := os.Mkdir(own.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, own.dir)
	if u.cred != nil {
		if err := os.Chown(own.dir, int(u.cred.Uid), int(u.cred.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := own.output("get", "pods,events")
			t.Logf("%s\n%s", out, (&home{t: t, dir: own.dir}).log())
		}
		own.run("down", "--purge")
		checkLeft(t, work)
	})
	file := filepath.Join(own.dir, "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	own.run("up", "-d", "--config", file)
	return &own
}

// manifest copies a manifest for the user. Where containers find volumes below $MINIKCTL_ROOT only, it replaces the paths.
func (u *tenant) manifest(name string, paths map[string]string) string {
	u.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/applications", name))
	if err != nil {
		u.Fatal(err)
	}
	text := string(b)
	if u.confined {
		for old, instead := range paths {
			if !strings.Contains(text, old) {
				u.Fatalf("%s lacks %q", name, old)
			}
			text = strings.ReplaceAll(text, old, instead)
		}
	}
	path := filepath.Join(u.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		u.Fatal(err)
	}
	return path
}

func (u *tenant) output(args ...string) (string, error) {
	args = append(append([]string{}, u.command...), args...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.SysProcAttr = u.dir, &syscall.SysProcAttr{Credential: u.cred}
	cmd.Env = []string{"HOME=" + u.dir, "PATH=" + os.Getenv("PATH"), confineVariable + "=1"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (u *tenant) run(args ...string) string {
	u.Helper()
	out, err := u.output(args...)
	if err != nil {
		u.Fatalf("minikctl %v: %v\n%s", args, err, out)
	}
	return out
}

// kill ends the daemon with SIGKILL.
func (u *tenant) kill() {
	u.Helper()
	(&home{t: u.T, dir: u.dir}).kill()
}

func (u *tenant) eventually(want string, got func() string) {
	u.Helper()
	var last string
	if !within(2*time.Minute, func() bool {
		last = got()
		return last == want
	}) {
		u.Fatalf("got %q, want %q", last, want)
	}
}

// fetch returns the body of a page, or the error.
func fetch(url string) string {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	return fetchRequest(req)
}

// fetchRequest sends a request on a connection of its own, and returns the body of the response, or the error.
func fetchRequest(req *http.Request) string {
	req.Close = true
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return resp.Status + ": " + string(body)
	}
	return strings.TrimSpace(string(body))
}
