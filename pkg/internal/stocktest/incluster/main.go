// The program incluster is a client inside a pod: client-go finds the API server, the authority and the token by itself. It lists the pods
// of its namespace and creates a ConfigMap whose name is the first argument.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return err
	}
	core := kubernetes.NewForConfigOrDie(config).CoreV1()
	where := strings.TrimSpace(string(namespace))
	pods, err := core.Pods(where).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	data := map[string]string{"pods": strconv.Itoa(len(pods.Items))}
	_, err = core.ConfigMaps(where).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	return err
}
