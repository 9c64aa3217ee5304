"""Formats of credentials as published by their issuers and known to secret scanners.

Every pattern is anchored by a literal and has bounded repetitions, so that no content is slow to search.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Rule(NamedTuple):
    """A kind of credential."""

    what: str
    """Name with its article, as in "holds a Vault token"."""
    literals: tuple[bytes, ...]
    """At least one of them occurs in every content that the pattern matches."""
    pattern: re.Pattern[bytes]
    """Its first group, or the whole match, is the credential."""
    least_entropy: float = 3.0
    """Bits per character below which a match is a placeholder."""


def _token(what: str, literals: str, pattern: str, least_entropy: float = 3.0) -> Rule:
    """Return the rule for a token that begins with a literal of its issuer."""
    return Rule(
        what,
        tuple(literal.encode() for literal in literals.split()),
        re.compile(rf"(?<![A-Za-z0-9_])(?:{pattern})".encode()),
        least_entropy,
    )


def _assigned(what: str, literals: str, name: str, value: str) -> Rule:
    """Return the rule for a value identified by its name: `NAME = "VALUE"`, `NAME: VALUE`, `"NAME":
    "VALUE"`.
    """
    pattern = rf"(?i:{name})[\"']?\s{{0,4}}(?:=>|:=|[:=,(])\s{{0,4}}[\"']?((?:{value}))(?![A-Za-z0-9/+_=-])"
    return Rule(what, tuple(literal.encode() for literal in literals.split()), re.compile(pattern.encode()))


_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

ISSUED = (
    _token("a Hugging Face token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{34}(?![A-Za-z0-9_])"),
    _token(
        "an AWS access key", "AKIA ASIA ABIA ACCA A3T", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"
    ),
    _assigned("an AWS secret key", "aws AWS Aws", r"aws\w{0,20}(?:secret|key)\w{0,20}", r"[A-Za-z0-9/+]{40}"),
    _token("a Google API key", "AIza", r"AIza[\w-]{35}(?![\w-])"),
    _token("a Google client secret", "GOCSPX-", r"GOCSPX-[\w-]{28}(?![\w-])"),
    _token("a Google access token", "ya29.", r"ya29\.[\w-]{30,}"),
    _assigned("a Google refresh token", "1//0", "refresh_token", r"1//0[\w-]{40,200}"),
    _token("a Kaggle token", "KGAT_", r"KGAT_[0-9a-f]{32}\b"),
    _assigned("a Kaggle key", "kaggle_key KAGGLE_KEY", "kaggle_key", r"[0-9a-f]{32}"),
    Rule(
        "a Kaggle key",
        (b'"username"',),
        re.compile(
            rb'"username"\s{0,9}:\s{0,9}"[^"\n]{1,100}"\s{0,9},\s{0,9}"key"\s{0,9}:\s{0,9}"([0-9a-f]{32})"'
        ),
    ),
    _token("a Vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[\w-]{24,}"),
    _assigned("a Vault token", "vault VAULT Vault", r"vault\w{0,20}token", r"s\.[A-Za-z0-9]{24}"),
    Rule("a Terraform token", (b".atlasv1.",), re.compile(rb"\b[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}")),
    _token("a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("a GitHub token", "github_pat_", r"github_pat_\w{82}\b"),
    _token(
        "a GitLab token",
        "glpat- glcbt- gldt- glft- glimt- gloas- glptt- glrt- glsoat- glagent-",
        r"gl(?:pat|cbt|dt|ft|imt|oas|ptt|rt|soat|agent)-[\w-]{20,}",
    ),
    _token(
        "a Slack token",
        "xox xapp-",
        r"xox[abeoprs]-(?:\d+-)?\w{8,}-[\w-]{10,}|xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{20,}",
    ),
    _token(
        "a Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w+/]{40,}"
    ),
    _token(
        "an OpenAI key", "T3BlbkFJ", r"sk-(?:[a-z]{1,12}-)?[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}"
    ),
    _token("an Anthropic key", "sk-ant-", r"sk-ant-[a-z]{3,8}\d\d-[\w-]{80,}"),
    Rule(
        "a Weights & Biases key",
        (b"wandb", b"WANDB", b"Wandb"),
        re.compile(rb"(?i)wandb[^\n]{0,30}?(?:key|token|password)[^\n\w]{1,6}([0-9a-f]{40})\b"),
    ),
    _token("a Replicate token", "r8_", r"r8_[A-Za-z0-9]{37}\b"),
    _token("a Groq key", "gsk_", r"gsk_[A-Za-z0-9]{52}\b"),
    _token("a Perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{48}(?![A-Za-z0-9])"),
    _token("a Linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{40}(?![A-Za-z0-9])"),
    _token("a Heroku key", "HRKU-", r"HRKU-AA[\w-]{58}(?![\w-])"),
    _assigned("a Heroku key", "heroku HEROKU Heroku", r"heroku[\w.-]{0,20}", _UUID),
    _token("a Databricks token", "dapi", r"dapi[0-9a-f]{32}\b"),
    _token("an npm token", "npm_", r"npm_[A-Za-z0-9]{36}\b"),
    _token("a PyPI token", "pypi-AgE", r"pypi-AgE[\w-]{60,}"),
    _token("a Stripe key", "k_live_ k_test_", r"[rs]k_(?:live|test)_[A-Za-z0-9]{20,}"),
    _token("a SendGrid key", "SG.", r"SG\.[\w-]{20,24}\.[\w-]{39,50}"),
    _token("a Twilio key", "SK", r"SK[0-9a-f]{32}\b"),
    _token("a DigitalOcean token", "_v1_", r"do[opr]_v1_[0-9a-f]{64}\b"),
    _token("a Doppler token", "dp.", r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9]{40,}"),
    _token("a Pulumi token", "pul-", r"pul-[0-9a-f]{40}\b"),
    _token("a Grafana token", "glsa_ glc_", r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b|glc_[A-Za-z0-9+/]{40,}"),
    _token("a Telegram token", ":AA", r"\d{8,10}:AA[\w-]{33}(?![\w-])"),
    _token("a Tailscale key", "tskey-", r"tskey-[a-z]{2,10}-\w{8,}-\w{16,}"),
    _token("a 1Password token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/]{200,}"),
    _token("an age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}\b"),
    _token("an NVIDIA key", "nvapi-", r"nvapi-[\w-]{60,80}(?![\w-])"),
    _token("an OpenRouter key", "sk-or-v1-", r"sk-or-v1-[0-9a-f]{64}\b"),
    _token("a Fireworks key", "fw_", r"fw_(?=[A-Za-z]{0,50}\d)[A-Za-z0-9]{20,50}(?![\w-])", 3.5),
    _token("an xAI key", "xai-", r"xai-[A-Za-z0-9]{70,90}(?![\w-])"),
    _token("a Bedrock key", "ABSK", r"ABSK[A-Za-z0-9+/]{109,269}(?![A-Za-z0-9+/])"),
    _token("a Docker Hub token", "dckr_", r"dckr_[po]at_[\w-]{27,40}(?![\w-])"),
    _token("a PlanetScale token", "pscale_", r"pscale_(?:tkn|oauth|pw)_[\w=.-]{32,64}"),
    _token("a Shopify token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}\b"),
    Rule("an Airtable token", (b"pat",), re.compile(rb"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b")),
    _token("a Notion token", "ntn_", r"ntn_\d{11}[A-Za-z0-9]{35}(?![A-Za-z0-9])"),
    _token("an Artifactory key", "AKCp", r"AKCp[A-Za-z0-9]{69}(?![A-Za-z0-9])", 4.0),
    _token("an Artifactory token", "cmVmd", r"cmVmd[A-Za-z0-9]{59}(?![A-Za-z0-9+/=])", 4.0),
    _token("an Atlassian token", "ATATT3", r"ATATT3[\w=-]{186}(?![\w=-])"),
    _token("an Alibaba access key", "LTAI", r"LTAI[A-Za-z0-9]{20}(?![\w+/=-])"),
    _assigned("an Alibaba secret key", "alibaba ALIBABA Alibaba", r"alibaba[\w.-]{0,30}", "[A-Za-z0-9]{30}"),
    _token("an Adobe client secret", "p8e-", r"p8e-[A-Za-z0-9]{32}(?![\w-])"),
    _token("a Clojars token", "CLOJARS_", r"CLOJARS_[A-Za-z0-9]{60}(?![A-Za-z0-9])"),
    _token("a Dynatrace token", "dt0c01.", r"dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
    _token("a Fly.io token", "fo1_ fm1 fm2_", r"fo1_[\w-]{43}(?![\w-])|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,}"),
    _token("a New Relic key", "NRAK- NRII-", r"NRAK-[A-Z0-9]{27}\b|NRII-[A-Za-z0-9-]{32}(?![\w-])"),
    _token("a New Relic browser key", "NRJS-", r"NRJS-[0-9a-f]{19}\b"),
    _token("an OpenShift token", "sha256~", r"sha256~[\w-]{43}(?![\w-])", 3.5),
    _token("a Postman key", "PMAK-", r"PMAK-[0-9A-Fa-f]{24}-[0-9A-Fa-f]{34}\b"),
    _token("a Prefect token", "pnu_ pnb_", r"pn[ub]_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("a ReadMe key", "rdme_", r"rdme_[a-z0-9]{70}(?![A-Za-z0-9])"),
    _token("a RubyGems key", "rubygems_", r"rubygems_[0-9a-f]{48}\b"),
    _token("a Brevo key", "xkeysib-", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}\b"),
    _token("a Sentry token", "sntryu_", r"sntryu_[0-9a-f]{64}\b"),
    _token("a Sentry token", "sntrys_eyJ", r"sntrys_eyJ[A-Za-z0-9+/]{20,400}={0,2}_[A-Za-z0-9+/]{43}"),
    _token("a Sourcegraph token", "sgp_", r"sgp_(?:(?:[0-9A-Fa-f]{16}|local)_)?[0-9A-Fa-f]{40}\b"),
    _token("a Square token", "EAAA sq0atp-", r"(?<![+/=-])(?:EAAA|sq0atp-)[\w-]{22,60}(?![\w+/=-])", 3.5),
    _token("a Duffel token", "duffel_", r"duffel_(?:test|live)_[\w=-]{43}"),
    _token("an EasyPost key", "EZAK EZTK", r"EZ[AT]K[A-Za-z0-9]{54}(?![A-Za-z0-9])"),
    _token("a Frame.io token", "fio-u-", r"fio-u-[\w=-]{64}"),
    _token("a Harness key", "pat. sat.", r"[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b"),
    _token("an Infracost key", "ico-", r"ico-[A-Za-z0-9]{32}(?![\w-])", 3.5),
    _token("an Octopus Deploy key", "API-", r"API-[A-Z0-9]{26}(?![\w-])", 3.5),
    _token("a Scalingo token", "tk-us-", r"tk-us-[\w-]{48}(?![\w-])"),
    _token("a Shippo token", "shippo_", r"shippo_(?:live|test)_[0-9A-Fa-f]{40}\b"),
    _token("a Cloudflare key", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}\b"),
    Rule("a MaxMind key", (b"_mmk",), re.compile(rb"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b")),
    _token(
        "a Discord webhook",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{60,80}(?![\w-])",
    ),
    _token(
        "a Teams webhook",
        "webhook.office.com",
        rf"webhook\.office\.com/webhookb2/{_UUID}@{_UUID}/IncomingWebhook/[0-9A-Za-z]{{32}}/{_UUID}",
    ),
    _token("a JSON web token", "eyJ", r"eyJ[\w-]{15,4000}\.eyJ[\w-]{15,4000}\.[\w-]{20,}"),
    Rule("an Azure storage key", (b"AccountKey=",), re.compile(rb"AccountKey=([A-Za-z0-9+/]{86}==)")),
    _token("an Azure client secret", "Q~", r"[\w~.]{3}\dQ~[\w~.-]{31,34}"),
    Rule(
        "a registry password",
        (b'"auths"',),
        re.compile(rb'"auth"\s{0,9}:\s{0,9}"([A-Za-z0-9+/]{12,2000}={0,2})"'),
        2.5,
    ),
    Rule(
        "a password",
        (b"machine",),
        re.compile(rb"(?m)^machine[ \t]+\S{1,200}\s+login[ \t]+\S{1,200}\s+password[ \t]+(\S{6,200})"),
        2.0,
    ),
)
