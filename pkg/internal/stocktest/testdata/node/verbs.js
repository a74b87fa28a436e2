// What programs in JavaScript do with a cluster, by the library that they all use. The kubeconfig is the first argument.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const namespace = 'scripts';

async function until(what, cond) {
  const end = Date.now() + 30_000;
  for (;;) {
    const got = await cond();
    if (got) return got;
    if (Date.now() > end) throw new Error('not in time: ' + what);
    await new Promise((done) => setTimeout(done, 50));
  }
}

async function refused(code, call) {
  const error = await call.then(() => null, (e) => e);
  assert.equal(error?.code, code, String(error));
  return JSON.parse(error.body);
}

async function discover() {
  const version = await config.makeApiClient(k8s.VersionApi).getCode();
  assert.equal(version.gitVersion.split('-')[0], 'v1.36.3');
  const groups = await config.makeApiClient(k8s.ApisApi).getAPIVersions();
  assert.ok(groups.groups.some((g) => g.name === 'apps'));
}

async function objects() {
  await core.createNamespace({ body: { metadata: { name: namespace } } });
  const events = [];
  const watch = new k8s.Watch(config);
  const abort = await watch.watch(`/api/v1/namespaces/${namespace}/configmaps`, {}, (type, obj) => {
    if (obj.metadata.name === 'settings') events.push(type);
  }, () => {});

  const body = { metadata: { name: 'settings' }, data: { a: '1' } };
  await core.createNamespacedConfigMap({ namespace, body });
  const exists = await refused(409, core.createNamespacedConfigMap({ namespace, body }));
  assert.equal(exists.reason, 'AlreadyExists');

  const made = await core.readNamespacedConfigMap({ namespace, name: 'settings' });
  assert.deepEqual(made.data, { a: '1' });
  assert.ok(made.metadata.creationTimestamp instanceof Date);
  made.data.a = '2';
  const replaced = await core.replaceNamespacedConfigMap({ namespace, name: 'settings', body: made });
  assert.notEqual(replaced.metadata.resourceVersion, made.metadata.resourceVersion);
  await refused(409, core.replaceNamespacedConfigMap({ namespace, name: 'settings', body: made }));

  await core.patchNamespacedConfigMap({ namespace, name: 'settings', body: [{ op: 'add', path: '/data/b', value: '3' }] },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.JsonPatch));
  const patched = await core.patchNamespacedConfigMap({ namespace, name: 'settings', body: { data: { a: null } } },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch));
  assert.deepEqual(patched.data, { b: '3' });
  const applied = await core.patchNamespacedConfigMap({
    namespace, name: 'settings', fieldManager: 'script', force: true,
    body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings' }, data: { b: '4' } },
  }, k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply));
  assert.ok(applied.metadata.managedFields.some((e) => e.manager === 'script' && e.operation === 'Apply'));

  const invalid = await refused(422, core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'Not_A_Name' } } }));
  assert.equal(invalid.details.causes[0].field, 'metadata.name');
  const page = await core.listNamespacedConfigMap({ namespace, limit: 1 });
  assert.equal(page.items.length, 1);
  await core.deleteNamespacedConfigMap({ namespace, name: 'settings' });
  await refused(404, core.readNamespacedConfigMap({ namespace, name: 'settings' }));
  await until('the watch has seen it all', () => events.at(-1) === 'DELETED');
  assert.equal(events[0], 'ADDED');
  abort.abort();
}

async function generic() {
  const client = k8s.KubernetesObjectApi.makeApiClient(config);
  const spec = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'key', namespace }, stringData: { k: 'v' } };
  await client.create(spec);
  const got = await client.read(spec);
  assert.equal(Buffer.from(got.data.k, 'base64').toString(), 'v');
  await client.delete(spec);
}

async function workloads() {
  const seen = new Set();
  const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/pods`, () => core.listNamespacedPod({ namespace }));
  informer.on('add', (pod) => seen.add(pod.metadata.name));
  informer.on('delete', (pod) => seen.delete(pod.metadata.name));
  await informer.start();
  const labels = { app: 'web' };
  await apps.createNamespacedDeployment({
    namespace,
    body: {
      metadata: { name: 'web' },
      spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'nginx' }] } } },
    },
  });
  await until('the Deployment is there', async () =>
    (await apps.readNamespacedDeployment({ namespace, name: 'web' })).status.readyReplicas === 1);
  const pod = (await core.listNamespacedPod({ namespace, labelSelector: 'app=web' })).items[0];
  await until('the informer shows the pod', () => seen.has(pod.metadata.name));
  await until('its log is there', async () => /listening on/.test(await core.readNamespacedPodLog({ namespace, name: pod.metadata.name })));

  const out = new PassThrough();
  let text = '';
  out.on('data', (chunk) => { text += chunk; });
  const status = await new Promise((done, fail) => {
    new k8s.Exec(config).exec(namespace, pod.metadata.name, 'web', ['sh', '-c', 'echo inside; exit 3'], out, process.stderr, null, false, done).catch(fail);
  });
  assert.equal(text, 'inside\n');
  assert.equal(status.status, 'Failure');
  assert.equal(status.details.causes[0].message, '3');

  const scale = await apps.readNamespacedDeploymentScale({ namespace, name: 'web' });
  scale.spec.replicas = 2;
  await apps.replaceNamespacedDeploymentScale({ namespace, name: 'web', body: scale });
  await until('it is scaled', async () =>
    (await apps.readNamespacedDeployment({ namespace, name: 'web' })).status.readyReplicas === 2);
  await core.deleteNamespace({ name: namespace });
  await until('the namespace is gone', async () => {
    const error = await core.readNamespace({ name: namespace }).then(() => null, (e) => e);
    return error?.code === 404;
  });
  await until('the informer has seen that', () => seen.size === 0);
  await informer.stop();
}

async function custom() {
  const extensions = config.makeApiClient(k8s.ApiextensionsV1Api);
  const objects = config.makeApiClient(k8s.CustomObjectsApi);
  const kind = { group: 'script.example.com', version: 'v1', plural: 'poems' };
  const at = { ...kind, namespace: 'default' };
  const text = { type: 'string', maxLength: 10 };
  await extensions.createCustomResourceDefinition({
    body: {
      metadata: { name: 'poems.script.example.com' },
      spec: {
        group: kind.group, scope: 'Namespaced', names: { kind: 'Poem', plural: kind.plural, singular: 'poem' },
        versions: [{
          name: 'v1', served: true, storage: true, subresources: { status: {}, scale: { specReplicasPath: '.spec.copies', statusReplicasPath: '.status.copies' } },
          schema: {
            openAPIV3Schema: {
              type: 'object',
              properties: {
                spec: { type: 'object', required: ['title'], properties: { title: text, verses: { type: 'array', items: text }, copies: { type: 'integer', _default: 1 } } },
                status: { type: 'object', properties: { read: { type: 'boolean' }, copies: { type: 'integer' } } },
              },
            },
          },
        }],
      },
    },
  });
  await until('the definition is established', async () =>
    (await extensions.readCustomResourceDefinitionStatus({ name: 'poems.script.example.com' })).status.conditions
      ?.some((c) => c.type === 'Established' && c.status === 'True'));

  const seen = [];
  const abort = await new k8s.Watch(config).watch('/apis/script.example.com/v1/poems', {}, (type, obj) => {
    seen.push(type + ' ' + obj.spec.title);
  }, () => {});
  const body = { apiVersion: 'script.example.com/v1', kind: 'Poem', metadata: { name: 'ode' }, spec: { title: 'Ode', unknown: 1 } };
  const made = await objects.createNamespacedCustomObject({ ...at, body });
  assert.deepEqual(made.spec, { title: 'Ode', copies: 1 });
  made.spec.verses = ['a', 'b'];
  const replaced = await objects.replaceNamespacedCustomObject({ ...at, name: 'ode', body: made });
  assert.equal(replaced.metadata.generation, 2);
  await refused(409, objects.replaceNamespacedCustomObject({ ...at, name: 'ode', body: made }));
  const long = await refused(422, objects.createNamespacedCustomObject({ ...at, body: { ...body, metadata: { name: 'long' }, spec: { title: 'An ode to joy' } } }));
  assert.equal(long.details.causes[0].field, 'spec.title');

  await objects.patchNamespacedCustomObject({ ...at, name: 'ode', body: [{ op: 'add', path: '/spec/verses/-', value: 'c' }] },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.JsonPatch));
  await objects.patchNamespacedCustomObjectStatus({ ...at, name: 'ode', body: { status: { read: true } } },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch));
  const scale = await objects.getNamespacedCustomObjectScale({ ...at, name: 'ode' });
  assert.equal(scale.kind, 'Scale');
  scale.spec.replicas = 3;
  await objects.replaceNamespacedCustomObjectScale({ ...at, name: 'ode', body: scale });
  const applied = await objects.patchNamespacedCustomObject({
    ...at, name: 'ode', fieldManager: 'script', force: true,
    body: { apiVersion: body.apiVersion, kind: 'Poem', metadata: { name: 'ode' }, spec: { title: 'Hymn' } },
  }, k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply));
  assert.deepEqual([applied.spec, applied.status], [{ title: 'Hymn', verses: ['a', 'b', 'c'], copies: 3 }, { read: true }]);

  const listed = await objects.listCustomObjectForAllNamespaces({ ...kind, resourcePlural: kind.plural });
  assert.equal(listed.items.length, 1);
  assert.equal(listed.kind, 'PoemList');
  const untyped = k8s.KubernetesObjectApi.makeApiClient(config);
  assert.equal((await untyped.read({ ...body, metadata: { name: 'ode', namespace: 'default' } })).spec.title, 'Hymn');
  await objects.deleteNamespacedCustomObject({ ...at, name: 'ode' });
  await refused(404, objects.getNamespacedCustomObject({ ...at, name: 'ode' }));
  await until('the watch has seen it all', () => seen.at(-1) === 'DELETED Hymn');
  assert.equal(seen[0], 'ADDED Ode');
  abort.abort();
  await extensions.deleteCustomResourceDefinition({ name: 'poems.script.example.com' });
  await until('nothing of it is served', async () => {
    const error = await objects.listCustomObjectForAllNamespaces({ ...kind, resourcePlural: kind.plural }).then(() => null, (e) => e);
    return error?.code === 404;
  });
}

for (const part of [discover, objects, generic, workloads, custom]) {
  await part();
  console.log(part.name, 'ok');
}
process.exit(0);
