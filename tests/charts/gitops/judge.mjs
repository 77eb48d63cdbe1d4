// Judges Kubernetes objects of Argo CD and Flux by the types that their projects publish: TypeScript refuses fields that do not
// exist and values of another type, the validators refuse missing fields, patterns and enumerations.
// Standard input: a JSON list of objects. Standard output: a JSON list of sentences, empty if all is well.
import { readFileSync } from "node:fs";
import ts from "typescript";

const MODELS = {
  "argoproj.io": "@kubernetes-models/argo-cd",
  "source.toolkit.fluxcd.io": "@kubernetes-models/flux-cd",
  "helm.toolkit.fluxcd.io": "@kubernetes-models/flux-cd",
  "kustomize.toolkit.fluxcd.io": "@kubernetes-models/flux-cd",
};
const OPTIONS = {
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  noEmit: true,
  skipLibCheck: true,
  strict: true,
  types: [],
};

const objects = JSON.parse(readFileSync(0, "utf-8"));
const sentences = [];
const source = [];
for (const [index, object] of objects.entries()) {
  const [group, version] = object.apiVersion.split("/");
  const place = `${MODELS[group]}/${group}/${version}/${object.kind}`;
  const { [object.kind]: Model } = await import(place);
  try {
    new Model(object).validate();
  } catch (error) {
    sentences.push(`${object.kind} ${object.metadata.name}: ${error.message}`);
  }
  source.push(`import type { I${object.kind} as T${index} } from "${place}";`);
  source.push(`export const object${index}: T${index} = ${JSON.stringify(object)};`);
}

const name = new URL("objects.ts", import.meta.url).pathname;
const host = ts.createCompilerHost(OPTIONS);
const { getSourceFile, fileExists } = host;
host.fileExists = (path) => path === name || fileExists(path);
host.getSourceFile = (path, ...rest) =>
  path === name ? ts.createSourceFile(path, source.join("\n"), rest[0]) : getSourceFile(path, ...rest);
for (const diagnostic of ts.getPreEmitDiagnostics(ts.createProgram([name], OPTIONS, host))) {
  sentences.push(ts.flattenDiagnosticMessageText(diagnostic.messageText, " "));
}
process.stdout.write(JSON.stringify(sentences));
