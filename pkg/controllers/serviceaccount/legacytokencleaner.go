package serviceaccount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

const (
	cleanEvery = 24 * time.Hour
	keepUnused = 365 * 24 * time.Hour // also after a token was marked as invalid

	lastUsed     = "kubernetes.io/legacy-token-last-used"
	invalidSince = "kubernetes.io/legacy-token-invalid-since"
)

// tokenTracking names the ConfigMap with the date from which on the API server records the last uses of tokens.
var tokenTracking = objects.Key{Namespace: metav1.NamespaceSystem, Name: "kube-apiserver-legacy-service-account-token-tracking"}

type legacyTokenCleaner struct {
	env      controller.Env
	accounts *client.Cache[*corev1.ServiceAccount]
	secrets  *client.Cache[*corev1.Secret]
	pods     *client.Cache[*corev1.Pod]
}

// LegacyTokenCleaner marks token Secrets that their ServiceAccount lists and that were not used for a year as invalid, and deletes them
// another year later. Those that pods use stay.
func LegacyTokenCleaner(env controller.Env) reconcile.Loop {
	r := legacyTokenCleaner{
		env: env, accounts: client.CacheOf[*corev1.ServiceAccount](env.Caches, client.ServiceAccounts),
		secrets: client.CacheOf[*corev1.Secret](env.Caches, client.Secrets), pods: env.Caches.Pods(),
	}
	return reconcile.Loop{
		Name:      "legacytokencleaner",
		Sources:   []reconcile.Source{reconcile.Every(env.Clock, cleanEvery, objects.Key{Name: "all"})},
		Reconcile: r.reconcile,
	}
}

func (r legacyTokenCleaner) reconcile(ctx context.Context, _ objects.Key) (time.Duration, error) {
	now := r.env.Clock.Now().UTC()
	obj, err := r.env.Client.Get(ctx, client.In(client.ConfigMaps, tokenTracking), metav1.GetOptions{})
	if err == nil {
		var enough bool
		if enough, err = trackedEnough(obj.(*corev1.ConfigMap), now); err == nil && !enough {
			return 0, nil
		}
	}
	if apierrors.IsNotFound(err) {
		return 0, nil // the API server creates the ConfigMap at its first start: nothing was tracked before
	}
	if err != nil {
		// The next run is as good: the date only matters a year later.
		slog.WarnContext(ctx, "read the begin of the token tracking", "controller", "legacytokencleaner", "err", err)
		return 0, nil
	}
	for _, s := range r.secrets.List("", labels.Everything()) {
		if !unused(s, now) || !r.isGenerated(s) || r.isMounted(s) {
			continue
		}
		if err := r.clean(ctx, s, now); err != nil {
			slog.WarnContext(ctx, "clean up an unused token", "controller", "legacytokencleaner", "key", controller.KeyOf(s), "err", err)
		}
	}
	return 0, nil
}

// trackedEnough reports whether all uses of tokens were recorded for a year. Recording begins in the course of the day that the ConfigMap
// has.
func trackedEnough(tracking *corev1.ConfigMap, now time.Time) (bool, error) {
	text, ok := tracking.Data["since"]
	if !ok {
		return false, errors.New("the ConfigMap has no date")
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return false, fmt.Errorf("parse the date: %w", err)
	}
	return !now.Before(day.AddDate(0, 0, 1).Add(keepUnused)), nil
}

// unused reports whether a token Secret is older than a year and was not used for one. Without a date it was not used since the begin of
// the tracking.
func unused(s *corev1.Secret, now time.Time) bool {
	if s.Type != corev1.SecretTypeServiceAccountToken || s.DeletionTimestamp != nil || !s.CreationTimestamp.Time.Before(now.Add(-keepUnused)) {
		return false
	}
	last, ok := s.Labels[lastUsed]
	if !ok {
		return true
	}
	_, err := time.Parse(time.DateOnly, last)
	return err == nil && last < now.Add(-keepUnused).Format(time.DateOnly)
}

// isGenerated reports whether the ServiceAccount of a Secret lists it, as it did when each had a generated token.
func (r legacyTokenCleaner) isGenerated(s *corev1.Secret) bool {
	sa, ok := r.accounts.Get(objects.Key{Namespace: s.Namespace, Name: s.Annotations[corev1.ServiceAccountNameKey]})
	if uid := s.Annotations[corev1.ServiceAccountUIDKey]; !ok || uid != "" && types.UID(uid) != sa.UID {
		return false
	}
	return slices.ContainsFunc(sa.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == s.Name })
}

func (r legacyTokenCleaner) isMounted(s *corev1.Secret) bool {
	return slices.ContainsFunc(r.pods.List(s.Namespace, labels.Everything()), func(p *corev1.Pod) bool {
		return podref.Has(podref.Secrets(p), s.Name)
	})
}

// clean marks an unused token as invalid, or deletes one that was marked a year ago.
func (r legacyTokenCleaner) clean(ctx context.Context, s *corev1.Secret, now time.Time) error {
	target := client.In(client.Secrets, controller.KeyOf(s))
	since := s.Labels[invalidSince]
	if _, err := time.Parse(time.DateOnly, since); err != nil {
		data, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": s.UID, "labels": map[string]string{invalidSince: now.Format(time.DateOnly)}},
		})
		if err != nil {
			return err
		}
		_, err = r.env.Client.Patch(ctx, target, client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{})
		return err
	}
	if since >= now.Add(-keepUnused).Format(time.DateOnly) {
		return nil
	}
	_, err := r.env.Client.Delete(ctx, target, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &s.ResourceVersion}})
	return controller.IgnoreReplaced(err)
}
