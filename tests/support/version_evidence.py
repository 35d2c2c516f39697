"""What stands behind each row of the version table: functions of tests, and recorded exchanges by their names."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """Tests that a "tested on" cell means, and exchanges that a "recorded" cell means, of 8.9.17 and of 8.10."""

    tests: tuple[str, ...] = ()
    of_8_9: tuple[str, ...] = ()
    of_8_10: tuple[str, ...] = ()


_DEPLOY_AND_START = (
    "test_a_deployed_model_gets_a_version_and_a_key",
    "test_a_process_is_started_in_its_latest_version",
    "test_a_published_message_reaches_the_instance_that_waits_for_its_key",
    "test_a_cancelled_instance_takes_its_job_along",
)
_JOBS = (
    "test_completing_a_job_hands_its_variables_to_the_next",
    "test_a_failed_job_rests_for_its_backoff",
    "test_a_thrown_error_takes_the_path_that_catches_it",
    "test_an_extended_job_is_not_delivered_again_yet",
)
_LISTENERS = ("test_a_wait_is_told_when_it_begins_and_when_it_ends",)
_NO_SEARCH = ("test_a_broker_without_search_offers_none_by_any_of_its_searches",)
_CREATING_AND_CANCELING = ("activate listener job (creating)", "activate canceling listener")

EVIDENCE: dict[tuple[str, str], Evidence] = {
    ("gRPC", "Deploy, start, publish, cancel"): Evidence(
        _DEPLOY_AND_START,
        of_8_10=(
            *("deploy lease-a", "create lease-a", "publish message with business id"),
            "cancel instance with cancel listener",
        ),
    ),
    ("gRPC", "Jobs: poll, complete, fail, throw, extend"): Evidence(
        _JOBS,
        of_8_10=(
            *("activate without lease", "finish it", "plain fail", "throw error leased: right token (nobody catches)"),
            "update timeout leased: no token",
        ),
    ),
    ("gRPC", "Jobs by push (streams)"): Evidence(
        ("test_a_stream_brings_jobs_without_a_token",), of_8_10=("stream lz.i withLease=False: pushed",)
    ),
    ("gRPC", "Execution listeners `start` and `end`"): Evidence(_LISTENERS),
    ("gRPC", "Execution listener `cancel` of a process"): Evidence(
        of_8_10=("activate the cancel listener job", "complete the cancel listener")
    ),
    ("gRPC", "Job-based user tasks"): Evidence(
        ("test_a_person_decides_and_the_next_verb_hears_it",),
        of_8_10=("activate io.camunda.zeebe:userTask", "complete job-based user task"),
    ),
    ("gRPC", "Task listeners of native user tasks"): Evidence(
        (
            "test_a_created_task_opens_its_gate_with_all_that_the_model_asks",
            "test_what_is_no_decision_of_the_gate_is_denied_with_the_reason_and_can_be_made_good",
            "test_a_cancelled_instance_closes_its_gate",
        ),
        of_8_10=("activate task listener with lease", "complete task listener: right token"),
    ),
    ("gRPC", "Job leases"): Evidence(
        ("test_a_token_that_the_engine_never_gave_is_ignored",),
        of_8_10=(
            *("A completes with its stale token", "A fails with its stale token", "A throws with its stale token"),
            *("A extends with its stale token", "B completes with its token"),
        ),
    ),
    ("gRPC", "A job delivered again by the shortest timeout"): Evidence(
        ("test_the_shortest_timeout_has_a_job_delivered_again",)
    ),
    ("gRPC", "Refusals of a suspended instance"): Evidence(),
    ("gRPC", "Set flags of an instance"): Evidence(("test_an_incident_without_a_job_goes_on_with_a_flag_and_its_key",)),
    ("gRPC", "Business id of a start"): Evidence(
        ("test_a_business_id_starts_the_process_on_every_version",), of_8_10=("create with business id",)
    ),
    ("gRPC", "Business ids that are unique"): Evidence(of_8_10=("uniqueness on: the same again",)),
    ("REST", "Jobs: activate, complete, fail, throw, extend"): Evidence(
        _JOBS,
        of_8_9=(
            *("activate x.do", "complete", "fail job, retries left", "throw an error nobody catches"),
            "update job timeout",
        ),
        of_8_10=(
            *("activate x.do", "complete", "fail job, retries left", "throw an error nobody catches"),
            "update job timeout",
        ),
    ),
    ("REST", "Deploy, start, publish, cancel"): Evidence(
        _DEPLOY_AND_START,
        of_8_9=("deploy work", "create work", "publish", "cancel instance"),
        of_8_10=("deploy work", "create work", "publish", "cancel instance"),
    ),
    ("REST", "Correlate a message"): Evidence(
        (
            "test_a_message_is_handed_over_at_once_where_somebody_waits",
            "test_correlating_names_the_instance_or_nobody",
        ),
        of_8_9=("correlate", "correlate: nobody waits"),
        of_8_10=("correlate", "correlate: nobody waits"),
    ),
    ("REST", "Native user tasks: complete, assign, unassign"): Evidence(
        (
            "test_a_decision_completes_the_task_of_a_real_broker_over_rest",
            "test_a_claim_is_mirrored_and_another_persons_task_is_not_taken",
        ),
        of_8_9=("complete user task (waits for its listener)", "assign", "unassign"),
        of_8_10=("complete user task (waits for its listener)", "assign", "unassign"),
    ),
    ("REST", "Execution listeners `start` and `end`"): Evidence(_LISTENERS),
    ("REST", "Activation of `creating` and `canceling` listeners"): Evidence(
        of_8_9=_CREATING_AND_CANCELING,
        of_8_10=("activate listener job (creating) over REST", "activate canceling listener"),
    ),
    ("REST", "Denial by a `completing` listener"): Evidence(),
    ("REST", "Set flags of an instance"): Evidence(("test_an_incident_without_a_job_goes_on_with_a_flag_and_its_key",)),
    ("REST", "Resolve an incident"): Evidence(
        ("test_an_incident_without_a_job_goes_on_with_a_flag_and_its_key",),
        of_8_9=("resolve incident", "update retries"),
        of_8_10=("resolve incident", "update retries"),
    ),
    ("REST", "Job leases"): Evidence(
        ("test_jobs_come_without_a_token_and_one_warning_says_so",),
        of_8_10=(
            *("lease: A completes, stale token", "lease: A fails, stale token", "lease: A throws, stale token"),
            *("lease: A extends, stale token", "lease: B completes"),
        ),
    ),
    ("REST", "Suspend, resume, and the refusals between"): Evidence(
        of_8_10=(
            *("complete a job of a suspended instance", "fail a job of a suspended instance"),
            "extend a job of a suspended instance",
        )
    ),
    ("REST", "Business id of a start"): Evidence(of_8_10=("create rl-g", "uniqueness on: the same over REST")),
    ("Search", "Incidents, instances, user tasks, jobs"): Evidence(
        _NO_SEARCH,
        of_8_9=(
            *("search incidents", "search instance: completed", "search user tasks of an instance"),
            "search jobs",
        ),
    ),
    ("Search", "Terminations since a time, several instances in one request"): Evidence(),
    ("Search", "Active elements, message subscriptions"): Evidence(
        of_8_9=("search element instances (where it stands)", "search message subscriptions")
    ),
    ("Search", "Wait states"): Evidence(),
}
