# Jobs and CronJobs.
# shellcheck shell=bash

# job NAME SPEC COMMAND: a Job with further fields of its spec.
job() {
  printf '{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {%s template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: c, image: "%s", command: [sh, -c, "%s"]}]}}}}\n' \
    "$1" "$2" "$IMAGE" "$3"
}
applies 'a Job' < <(job one '' true)
field 'completes' job/one '.status.conditions[?(@.type=="Complete")].status' True
field 'with one pod' job/one .status.succeeded 1
event 'and says so' Completed one
applies 'a Job of four, two at a time' < <(job four 'completions: 4, parallelism: 2,' true)
field 'completes' job/four .status.succeeded 4
applies 'a Job that fails' < <(job bad 'backoffLimit: 1,' false)
field 'has failed' job/bad '.status.conditions[?(@.type=="Failed")].reason' BackoffLimitExceeded
field 'after two pods' job/bad .status.failed 2
applies 'a Job with a deadline' < <(job late 'activeDeadlineSeconds: 3,' 'sleep infinity')
field 'exceeds it' job/late '.status.conditions[?(@.type=="Failed")].reason' DeadlineExceeded
gone 'and its pod goes' pods --selector job-name=late
applies 'a suspended Job' < <(job later 'suspend: true,' true)
field 'waits' job/later '.status.conditions[?(@.type=="Suspended")].status' True
does 'it is resumed' patch job later --patch '{"spec":{"suspend":false}}'
field 'and completes' job/later '.status.conditions[?(@.type=="Complete")].status' True
applies 'an indexed Job' < <(job indexed 'completions: 3, parallelism: 3, completionMode: Indexed,' 'test $JOB_COMPLETION_INDEX -lt 3')
field 'completes each index' job/indexed .status.completedIndexes 0-2
applies 'a Job whose indexes fail by themselves' < <(job limits 'completions: 2, parallelism: 2, completionMode: Indexed, backoffLimitPerIndex: 0,' 'test $JOB_COMPLETION_INDEX = 0')
field 'names the index that failed' job/limits .status.failedIndexes 1
field 'and fails' job/limits '.status.conditions[?(@.type=="Failed")].reason' FailedIndexes
applies 'a Job that some failure ends' < <(job policy 'backoffLimit: 5, podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [7]}}]},' 'exit 7')
field 'is failed by its policy' job/policy '.status.conditions[?(@.type=="Failed")].reason' PodFailurePolicy
applies 'a Job that one success completes' < <(job success 'completions: 3, parallelism: 3, completionMode: Indexed, successPolicy: {rules: [{succeededIndexes: "0"}]},' '[ $JOB_COMPLETION_INDEX = 0 ] || sleep infinity')
field 'completes by its policy' job/success '.status.conditions[?(@.type=="Complete")].reason' SuccessPolicy
applies 'a Job that is removed after a second' < <(job brief 'ttlSecondsAfterFinished: 1,' true)
gone 'is gone' job/brief
gone 'and its pods' pods --selector job-name=brief
does 'a Job is deleted' delete job four
gone 'with its pods' pods --selector job-name=four
does 'a CronJob' create cronjob tick --image "$IMAGE" --schedule '* * * * *' -- true
does 'a run by hand' create job --from cronjob/tick by-hand
field 'completes' job/by-hand '.status.conditions[?(@.type=="Complete")].status' True
shows 'a run comes by the clock' '[0-9T:Z-]+' get cronjob tick --output 'jsonpath={.status.lastScheduleTime}'
shows 'and completes' '[0-9T:Z-]+' get cronjob tick --output 'jsonpath={.status.lastSuccessfulTime}'
event 'with an event' SuccessfulCreate tick
does 'the CronJob is suspended' patch cronjob tick --patch '{"spec":{"suspend":true,"successfulJobsHistoryLimit":0}}'
shows 'its history goes' '' get jobs --output 'jsonpath={.items[?(@.metadata.ownerReferences[0].name=="tick")].metadata.name}'
does 'it is deleted' delete cronjob tick
gone 'and what it ran' job/by-hand
