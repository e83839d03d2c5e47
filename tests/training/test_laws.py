"""Laws of the step-time and memory models, as properties over random plans."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from analysis.composition.training.fixed_efficiency.kernel_time import efficiencies_of
from analysis.composition.training.fixed_efficiency.memory import memory
from analysis.composition.training.fixed_efficiency.plan import MEGATRON_2022, Plan, Software, check, padded_vocab
from analysis.composition.training.fixed_efficiency.step import predict, roofline_s
from analysis.errors import InputError
from analysis.hardware import systems
from analysis.hardware.systems import Level, System
from analysis.workloads import models

MODELS = ["megatron-22b", "llama-2-7b", "llama-3-70b", "mixtral-8x7b", "gpt3-13b"]
HGX = systems.load("HGX-H100")
many = settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much])  # most random plans do not divide
powers = st.sampled_from([1, 2, 4, 8])
plans = st.builds(
    Plan,
    tensor_parallel=powers,
    pipeline_parallel=st.sampled_from([1, 2, 4]),
    data_parallel=st.sampled_from([1, 2, 4, 8]),
    expert_parallel=st.sampled_from([1, 2]),
    interleave=st.sampled_from([1, 2]),
    microbatch=st.sampled_from([1, 2]),
    global_batch=st.sampled_from([64, 128]),
    sequence_length=st.sampled_from([1024, 2048]),
    sequence_parallel=st.booleans(),
    recompute=st.sampled_from(["none", "selective", "full"]),
    zero=st.sampled_from([0, 1, 2, 3]),
)
software = st.builds(
    Software,
    attention=st.sampled_from(["fused", "unfused"]),
    dropout=st.booleans(),
    overlap_tensor=st.booleans(),
    overlap_data=st.booleans(),
    overlap_pipeline=st.booleans(),
    fused_gradients=st.booleans(),
)
any_model = st.sampled_from(MODELS).map(models.load)


def _faster_network(system: System, factor: float) -> System:
    def faster(level: Level) -> Level:
        rate = level.per_direction
        quicker = rate.model_copy(update={key: getattr(rate, key) * factor for key in ("value", "low", "high")})
        return level.model_copy(update={"per_direction": quicker})

    return system.model_copy(update={"levels": tuple(faster(level) for level in system.levels)})


@many
@given(any_model, plans, software)
def test_no_plan_beats_the_roofline(model: models.Model, plan: Plan, program: Software) -> None:
    assume(not check(model, plan, HGX))
    result = predict(model, plan, program, HGX)
    assert result.time.total_s >= roofline_s(model, plan, program, HGX)
    # with fused causal attention the usual count credits work that is skipped: up to twice the attention
    assert 0 < result.mfu <= (1 if program.attention == "unfused" else 2)


@many
@given(any_model, plans, software, st.floats(min_value=1.0, max_value=16.0))
def test_a_faster_network_is_never_slower(model: models.Model, plan: Plan, program: Software, factor: float) -> None:
    assume(not check(model, plan, HGX))
    slow = predict(model, plan, program, HGX).time.total_s
    fast = predict(model, plan, program, _faster_network(HGX, factor)).time.total_s
    assert fast <= slow * (1 + 1e-9)


@many
@given(any_model, plans, software)
def test_better_efficiencies_are_never_slower(model: models.Model, plan: Plan, program: Software) -> None:
    assume(not check(model, plan, HGX))
    base = efficiencies_of(HGX.device)
    for better in ({"gemm": 1.0}, {"memory": 1.0}, {"kernel_s": 0.0}, {"network": 1.0}):
        improved = base.model_copy(update=better)
        assert predict(model, plan, program, HGX, improved).time.total_s <= predict(model, plan, program, HGX, base).time.total_s * (
            1 + 1e-9
        )


@many
@given(any_model, plans, software)
def test_parts_are_not_negative_and_sum_up(model: models.Model, plan: Plan, program: Software) -> None:
    assume(not check(model, plan, HGX))
    result = predict(model, plan, program, HGX)
    parts = result.time.as_dict()
    total = parts.pop("total")
    assert min(parts.values()) >= 0
    assert sum(parts.values()) == pytest.approx(total, rel=1e-12)
    filled = result.memory.as_dict()
    assert min(filled[key] for key in ("weights", "gradients", "optimizer", "activations", "working")) >= 0


@many
@given(any_model, plans, software)
def test_memory_falls_with_tensor_parallelism(model: models.Model, plan: Plan, program: Software) -> None:
    assume(plan.tensor_parallel < 8 and not plan.sequence_parallel)
    wider = plan.model_copy(update={"tensor_parallel": 2 * plan.tensor_parallel})
    assume(not check(model, plan, HGX) and not check(model, wider, HGX))
    assert memory(model, wider, program).total <= memory(model, plan, program).total


@many
@given(any_model, plans, software)
def test_memory_falls_with_zero_and_recomputation(model: models.Model, plan: Plan, program: Software) -> None:
    def total(**changes: object) -> float:
        return memory(model, plan.model_copy(update=changes), program).total

    assume(not check(model, plan.model_copy(update={"zero": 0}), HGX))
    assert total(zero=1) <= total(zero=0)
    assert total(zero=2) <= total(zero=1)
    state = [memory(model, plan.model_copy(update={"zero": zero}), program) for zero in (2, 3)]
    assert state[1].weights <= state[0].weights
    kept = [memory(model, plan.model_copy(update={"recompute": how}), program).activations for how in ("none", "selective", "full")]
    assert kept == sorted(kept, reverse=True)


@many
@given(any_model, plans)
def test_recomputation_costs_time(model: models.Model, plan: Plan) -> None:
    assume(not check(model, plan, HGX))
    times = [
        predict(model, plan.model_copy(update={"recompute": how}), MEGATRON_2022, HGX).time.total_s for how in ("none", "selective", "full")
    ]
    assert times == sorted(times)


def test_unfit_plans_are_refused() -> None:
    model = models.load("llama-2-7b")
    with pytest.raises(InputError, match="32 layers over 5 stages"):
        predict(model, Plan(pipeline_parallel=5, global_batch=8, sequence_length=1024), Software(), HGX)
    with pytest.raises(InputError, match="batch 10 over 4 x 1"):
        predict(model, Plan(data_parallel=4, global_batch=10, sequence_length=1024), Software(), HGX)


def test_sequence_parallelism_saves_memory_at_equal_traffic() -> None:
    """Korthikanti et al. 2022, section 4.2: an all-gather and a reduce-scatter replace each all-reduce."""
    model = models.load("megatron-175b")
    plain = Plan(tensor_parallel=8, pipeline_parallel=8, global_batch=64, sequence_length=2048)
    split = plain.model_copy(update={"sequence_parallel": True})
    system = systems.load("Selene")
    assert memory(model, split, MEGATRON_2022).total < memory(model, plain, MEGATRON_2022).total
    ours = [predict(model, plan, MEGATRON_2022, system).time.tensor for plan in (plain, split)]
    assert ours[0] < ours[1] == pytest.approx(ours[0], rel=0.15)


def test_a_vocabulary_that_does_not_divide_is_padded() -> None:
    """GPT-3's 50,257 tokens are 51,200 rows at tensor parallel 8 in Megatron-LM (128 x 8 divides them), 50,688 at 4."""
    model = models.load("gpt3-175b")
    plans = {t: Plan(tensor_parallel=t, pipeline_parallel=8, global_batch=64, sequence_length=2048) for t in (1, 2, 4, 8)}
    assert {t: padded_vocab(model, plan) for t, plan in plans.items()} == {1: 50257, 2: 50432, 4: 50688, 8: 51200}
    assert not any("vocabulary" in reason for plan in plans.values() for reason in check(model, plan, HGX))
