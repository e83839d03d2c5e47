"""What stands behind an agreement with a printed value: something computed or measured here, or only the documents themselves?"""

from __future__ import annotations

from analysis.claims.check_files import Source

RECOMPUTED, CONSISTENT = "recomputed", "consistent"

# Results tables whose values a model, a measurement, a recorded run or an open data set gives. Every other table restates, counts or grades
# what was typed from the documents or looked up, so that agreement with it only says that two transcriptions fit.
OWN_TABLES = {
    "astra_sim_experiment/attempts_16_32": "recorded runs of ASTRA-sim",
    "astra_sim_experiment/collectives": "our model of ASTRA-sim, equal to the tool to the cycle",
    "astra_sim_experiment/configurations": "lines of the tool's own files, counted by script",
    "astra_sim_experiment/resnet": "our model of ASTRA-sim, equal to the tool to the cycle",
    "cores_model/distribution": "our core model on our traces",
    "cores_programs/collector_rates": "our core model on our traces",
    "cores_ranking/pairs": "our network on our traces",
    "mtap_deployment/deployment": "our installations, timed",
    "mtap_deployment/seed_spread": "our serving simulator",
    "mtap_scores/reasons": "the rubric applied to the evidence gathered here, not to the draft's words",
    "serving_table7/as_printed": "recorded runs of VIDUR",
    "serving_table7/paired": "our serving simulator",
}
OWN_DATA = ("recorded/", "measured/", "claims/observed/deployment", "claims/observed/speeds")


def basis_of(source: Source) -> str:
    """*recomputed* when a model, a measurement or data of ours gives the value; *consistent* when it follows from typed numbers alone.

    A function is arithmetic on constants or on transcribed tables unless the table that it reads was recorded or measured.
    """
    if source.table is not None:
        return RECOMPUTED if source.table in OWN_TABLES else CONSISTENT
    return RECOMPUTED if str(source.args.get("table", "")).startswith(OWN_DATA) else CONSISTENT
