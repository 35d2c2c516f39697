{{- define "verbworker.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "verbworker.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "verbworker.account" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "verbworker.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of one part: (list . "worker"). */}}
{{- define "verbworker.selector" -}}
app.kubernetes.io/name: verbworker
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "verbworker.labels" -}}
{{ include "verbworker.selector" . }}
app.kubernetes.io/part-of: verbworker
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end -}}

{{/* What every pod has, so that a namespace with the restricted standard lets it in. */}}
{{- define "verbworker.pod" -}}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "verbworker.container" -}}
image: {{ include "verbworker.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "verbworker.environment" -}}
envFrom:
  - configMapRef:
      name: {{ include "verbworker.name" . }}-settings
  {{- with .Values.secrets.camunda }}
  - secretRef:
      name: {{ . }}
  {{- end }}
{{- end -}}

{{- define "verbworker.probes" -}}
startupProbe:
  httpGet: {path: /live, port: {{ . }}}
  periodSeconds: 2
  failureThreshold: 30
# Alive is the event loop alone: a database that is away is no reason to restart.
livenessProbe:
  httpGet: {path: /live, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /ready, port: {{ . }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{/* Where pods go, from the values of one part. */}}
{{- define "verbworker.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A pod of one part is replaced when its settings change. */}}
{{- define "verbworker.annotations" -}}
{{- $root := index . 0 -}}
checksum/settings: {{ include (print $root.Template.BasePath "/settings.yaml") $root | sha256sum }}
{{- with (index . 1) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A budget for the pods of one part: (list . "worker" .Values.worker). */}}
{{- define "verbworker.budget" -}}
{{- $root := index . 0 -}}
{{- $part := index . 2 -}}
{{- if $part.disruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "verbworker.name" $root }}-{{ index . 1 }}
  labels:
    {{- include "verbworker.labels" (list $root (index . 1)) | nindent 4 }}
spec:
  maxUnavailable: {{ $part.disruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "verbworker.selector" (list $root (index . 1)) | nindent 6 }}
{{- end }}
{{- end -}}

{{/* A server for people or programs: (list . "console" .Values.console PORT ENVIRONMENT). */}}
{{- define "verbworker.server" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $part := index . 2 -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "verbworker.name" $root }}-{{ $name }}
  labels:
    {{- include "verbworker.labels" (list $root $name) | nindent 4 }}
spec:
  replicas: {{ $part.replicas }}
  selector:
    matchLabels:
      {{- include "verbworker.selector" (list $root $name) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "verbworker.labels" (list $root $name) | nindent 8 }}
      annotations:
        {{- include "verbworker.annotations" (list $root $part.podAnnotations) | nindent 8 }}
    spec:
      serviceAccountName: {{ include "verbworker.account" $root }}
      {{- include "verbworker.pod" $root | nindent 6 }}
      # Requests under way are answered: the drain is 20 seconds.
      terminationGracePeriodSeconds: 30
      {{- with include "verbworker.placement" $part | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      containers:
        - name: {{ $name }}
          {{- include "verbworker.container" $root | nindent 10 }}
          args: [{{ $name }}, --app, {{ $root.Values.app | quote }}]
          {{- include "verbworker.environment" $root | nindent 10 }}
          env:
            # Probes have a port of their own, which clients cannot use up.
            - name: VERBWORKER_{{ upper $name }}_PROBE_PORT
              value: {{ sub (index . 3) 10 | quote }}
            {{- index . 4 | nindent 12 }}
          ports:
            - name: http
              containerPort: {{ index . 3 }}
            - name: probes
              containerPort: {{ sub (index . 3) 10 }}
          {{- include "verbworker.probes" "probes" | nindent 10 }}
          resources:
            {{- toYaml $part.resources | nindent 12 }}
          volumeMounts:
            - name: database
              mountPath: /run/secrets/database
              readOnly: true
            - name: {{ $name }}
              mountPath: /run/secrets/{{ $name }}
              readOnly: true
            {{- if $root.Values.secrets.integrity }}
            - name: integrity
              mountPath: /run/secrets/integrity
              readOnly: true
            {{- end }}
            - name: scratch
              mountPath: /tmp
      volumes:
        - name: database
          secret:
            secretName: {{ index $root.Values.secrets (printf "database%s" (title $name)) }}
            defaultMode: 0440
        - name: {{ $name }}
          secret:
            secretName: {{ index $root.Values.secrets $name }}
            defaultMode: 0440
        {{- with $root.Values.secrets.integrity }}
        - name: integrity
          secret:
            secretName: {{ . }}
            defaultMode: 0440
        {{- end }}
        - name: scratch
          emptyDir:
            medium: Memory
            sizeLimit: 16Mi
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "verbworker.name" $root }}-{{ $name }}
  labels:
    {{- include "verbworker.labels" (list $root $name) | nindent 4 }}
spec:
  selector:
    {{- include "verbworker.selector" (list $root $name) | nindent 4 }}
  ports:
    - name: http
      port: 80
      targetPort: http
{{- include "verbworker.budget" (list $root $name $part) }}
{{- end -}}

{{- define "verbworker.console.environment" -}}
- name: VERBWORKER_CONSOLE_HOST
  value: "0.0.0.0"
- name: VERBWORKER_CONSOLE_PUBLIC_URL
  value: {{ .Values.console.publicUrl | quote }}
- name: VERBWORKER_CONSOLE_CREDENTIALS_FILE
  value: /run/secrets/console/credentials.json
# One for all replicas: a session is good at each of them.
- name: VERBWORKER_CONSOLE_SECRET
  valueFrom:
    secretKeyRef:
      name: {{ .Values.secrets.console }}
      key: secret
{{- end -}}

{{- define "verbworker.ingress.environment" -}}
- name: VERBWORKER_INGRESS_HOST
  value: "0.0.0.0"
- name: VERBWORKER_INGRESS_CREDENTIALS_FILE
  value: /run/secrets/ingress/credentials.json
{{- end -}}
