package batch

import (
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}

func TestPastStarts(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name, schedule, zone, created, last string
		deadline                            *int64
		now, latest                         string
		missed                              int64
		wait                                time.Duration
	}{
		{name: "not yet", schedule: "0 * * * *", created: "2026-01-01T10:10:00Z", now: "2026-01-01T10:50:00Z", wait: 10*time.Minute + requeueDelay},
		{name: "due", schedule: "0 * * * *", created: "2026-01-01T10:10:00Z", now: "2026-01-01T11:00:00Z", latest: "2026-01-01T11:00:00Z", wait: time.Hour + requeueDelay},
		{name: "started", schedule: "0 * * * *", created: "2026-01-01T10:10:00Z", last: "2026-01-01T11:00:00Z", now: "2026-01-01T11:00:01Z", wait: time.Hour - time.Second + requeueDelay},
		{name: "few missed", schedule: "0 * * * *", created: "2026-01-01T00:10:00Z", now: "2026-01-01T10:30:00Z", latest: "2026-01-01T10:00:00Z", missed: 10, wait: 30*time.Minute + requeueDelay},
		{name: "many missed", schedule: "* * * * *", created: "2025-01-01T00:00:00Z", now: "2026-01-01T00:00:30Z", latest: "2026-01-01T00:00:00Z", missed: 525600, wait: 30*time.Second + requeueDelay},
		{name: "many missed, within the deadline", schedule: "* * * * *", created: "2025-01-01T00:00:00Z", deadline: seconds(200), now: "2026-01-01T00:00:30Z", latest: "2026-01-01T00:00:00Z", missed: 3, wait: 30*time.Second + requeueDelay},
		{name: "all before the deadline", schedule: "0 * * * *", created: "2025-01-01T00:00:00Z", deadline: seconds(60), now: "2026-01-01T00:10:00Z", wait: 50*time.Minute + requeueDelay},
		{name: "in a time zone", schedule: "30 9 * * *", zone: "Asia/Tokyo", created: "2026-01-01T00:00:00Z", now: "2026-01-01T00:40:00Z", latest: "2026-01-01T00:30:00Z", wait: 24*time.Hour - 10*time.Minute + requeueDelay},
		{name: "every", schedule: "@every 1h30m", created: "2026-01-01T10:10:00Z", last: "2026-01-01T11:40:00Z", now: "2026-01-01T13:09:00Z", wait: time.Minute + requeueDelay},
		{name: "uneven intervals", schedule: "30 6-16/4 * * 1-5", created: "2026-01-02T14:00:00Z", now: "2026-01-05T11:00:00Z", latest: "2026-01-05T10:30:00Z", missed: 2, wait: 3*time.Hour + 30*time.Minute + requeueDelay},
	} {
		cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(instant(t, c.created))}}
		cj.Spec.Schedule, cj.Spec.StartingDeadlineSeconds = c.schedule, c.deadline
		if c.zone != "" {
			cj.Spec.TimeZone = &c.zone
		}
		if c.last != "" {
			last := metav1.NewTime(instant(t, c.last))
			cj.Status.LastScheduleTime = &last
		}
		s, err := parseSchedule(&cj.Spec)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pastStarts(cj, s, instant(t, c.now), true)
		if err != nil || !got.latest.Equal(instant(t, c.latest)) || got.missed != c.missed {
			t.Errorf("%s: got %+v, %v; want %s with %d missed", c.name, got, err, c.latest, c.missed)
		}
		if wait := untilNext(cj, s, instant(t, c.now)); wait != c.wait {
			t.Errorf("%s: the next start is in %v, want %v", c.name, wait, c.wait)
		}
	}
}

func TestDegenerateSchedule(t *testing.T) {
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}}
	cj.Spec.Schedule = "59 23 31 2 *"
	s, err := parseSchedule(&cj.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pastStarts(cj, s, noon, true); err == nil || !strings.Contains(err.Error(), "time difference between two schedules") {
		t.Errorf("got %v", err)
	}
	if wait := untilNext(cj, s, noon); wait <= 0 {
		t.Errorf("waits %v: it spins", wait)
	}
}

func TestParseSchedule(t *testing.T) {
	for schedule, ok := range map[string]bool{"* * * * *": true, "@daily": true, "@hourly": true, "* * * *": false, "TZ=0": false, "TZ=Asia/Tokyo 0 * * * *": true, "61 * * * *": false} {
		if _, err := parseSchedule(&batchv1.CronJobSpec{Schedule: schedule, TimeZone: new("Europe/Berlin")}); (err == nil) != ok {
			t.Errorf("%s: %v", schedule, err)
		}
	}
}

func TestZonesAreReadOnce(t *testing.T) {
	parse := func(zone string) *time.Location {
		s, err := parseSchedule(&batchv1.CronJobSpec{Schedule: "0 9 * * *", TimeZone: &zone})
		if err != nil {
			t.Fatal(err)
		}
		return s.(*cron.SpecSchedule).Location
	}
	tokyo := parse("Asia/Tokyo")
	if tokyo.String() != "Asia/Tokyo" {
		t.Errorf("the zone is %s", tokyo)
	}
	if parse("Asia/Tokyo") != tokyo {
		t.Error("the zone was read again")
	}
	for range 2 {
		if _, err := location("No/Such"); err == nil {
			t.Error("a zone that does not exist was loaded")
		}
	}
}

func TestNewJob(t *testing.T) {
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns", UID: "cron"}}
	cj.Spec.TimeZone = new("America/New_York")
	cj.Spec.JobTemplate.Labels = map[string]string{"a": "b"}
	cj.Spec.JobTemplate.Annotations = map[string]string{"c": "d"}
	cj.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	due := time.Date(2021, 11, 3, 16, 0, 0, 0, time.UTC)
	j, err := newJob(cj, due)
	if err != nil {
		t.Fatal(err)
	}
	if j.Name != "c-27265920" || j.Labels["a"] != "b" || j.Annotations["c"] != "d" || !metav1.IsControlledBy(j, cj) ||
		j.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] != "2021-11-03T12:00:00-04:00" {
		t.Errorf("got %+v", j.ObjectMeta)
	}
	if j.Annotations["c"] = "e"; cj.Spec.JobTemplate.Annotations["c"] != "d" {
		t.Error("the Job shares with the template")
	}
}

func TestOldJobs(t *testing.T) {
	job := func(name string, start int, end batchv1.JobConditionType) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if start >= 0 {
			j.Status.StartTime = new(at(start))
		}
		j.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: corev1.ConditionTrue}}
		return j
	}
	gone := job("gone", 0, batchv1.JobComplete)
	gone.DeletionTimestamp = new(at(1))
	jobs := []*batchv1.Job{
		job("b", 2, batchv1.JobComplete), job("a", 2, batchv1.JobComplete), job("first", 1, batchv1.JobComplete), job("never", -1, batchv1.JobComplete),
		job("failed", 0, batchv1.JobFailed), job("runs", 0, batchv1.JobSuspended), gone,
	}
	for keep, want := range map[int]string{0: "first a b never", 1: "first a b", 3: "first", 4: "", 9: ""} {
		var got []string
		for _, j := range oldJobs(jobs, batchv1.JobComplete, keep) {
			got = append(got, j.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("keep %d: deletes %v, want %s", keep, got, want)
		}
	}
}

func TestIsStarted(t *testing.T) {
	last := at(-60)
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}}
	cj.Status.LastScheduleTime = &last
	cj.Status.Active = []corev1.ObjectReference{{Namespace: "ns", Name: jobName(cj, noon)}}
	for seconds, want := range map[int]bool{-60: true, 0: true, 60: false} {
		if got := isStarted(cj, at(seconds).Time); got != want {
			t.Errorf("%d s after noon: got %v", seconds, got)
		}
	}
}
