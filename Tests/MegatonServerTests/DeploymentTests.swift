import Foundation
import MegatonCore
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// The manifests for Kubernetes, and the board for Grafana, in `deploy`.
@Suite(.timeLimit(.minutes(1))) struct DeploymentTests {
    private static let manifests = "deploy/kubernetes/megaton.yaml"
    private static let scaling = "deploy/kubernetes/scaledobject.yaml"

    /// The manifests of a kind, as text.
    private func manifests(_ kind: String) throws -> [String] {
        try Repository.text(Self.manifests).components(separatedBy: "---\n").filter { $0.contains("kind: \(kind)\n") }
    }

    /// The queries of the panels of the board.
    private func queries() throws -> [String] {
        let board = try GrafanaBoard.read()
        #expect(board.panels.count >= 10 && Set(board.panels.map(\.title)).count == board.panels.count)
        #expect(board.panels.allSatisfy { !$0.targets.isEmpty })
        return board.queries(range: "5m")
    }

    /// The query by which KEDA scales.
    private func scalingQuery() throws -> String {
        let lines = try Repository.text(Self.scaling).split(separator: "\n")
        let line = try #require(lines.first { $0.contains(" query: ") })
        return String(line.split(separator: " query: ", maxSplits: 1)[1])
    }

    /// A panel about a metric that there is not stays empty, and workers are not scaled by one.
    @Test func queriesUseMetricsThatThereAre() throws {
        let queries = try self.queries() + [try scalingQuery()]
        let names = queries.flatMap { query in
            query.matches(of: /(megaton|process)_[a-z_]+/).map { String($0.output.0) }
        }
        let known = MetricCatalog.all.flatMap { metric in
            metric.kind == .histogram ? ["_bucket", "_sum", "_count"].map { metric.name + $0 } : [metric.name]
        }
        #expect(Set(names).count >= 15)
        #expect(Set(names).subtracting(known).isEmpty)
    }

    @Test func prometheusAcceptsTheQueries() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        let queries = try self.queries() + [try scalingQuery()]
        let rules = try queries.enumerated().map { index, query in
            // A text of JSON is one of YAML.
            let text = String(decoding: try encoder.encode(query), as: UTF8.self)
            return "      - {record: \"megaton:query:\(index)\", expr: \(text)}\n"
        }
        let file = "groups:\n  - name: queries\n    rules:\n\(rules.joined())"
        let path = try directory.write(Data(file.utf8), to: "rules.yml")
        let promtool = try ProgramUnderTest(program: "/usr/bin/promtool", arguments: ["check", "rules", path])
        let ending = await promtool.ending()
        #expect(ending.code == 0, "\(ending.output)\(ending.errors)")
    }

    /// The output of a validator that is not ours, with the schemas of Kubernetes; `./scripts/test` installs it.
    private func validation(of files: [String]) async throws -> ProgramUnderTest.Ending {
        let script = "\(Repository.root)/Tests/Schemas/kubernetes.py"
        let python = "\(Repository.root)/.build/venv/bin/python"
        return await (try ProgramUnderTest(program: python, arguments: [script] + files)).ending()
    }

    @Test func manifestsFitTheirSchemas() async throws {
        let files = [Self.manifests, Self.scaling].map { "\(Repository.root)/\($0)" }
        let ending = try await validation(of: files)
        #expect(ending.code == 0 && ending.output == "11 manifests, 0 faults\n", "\(ending.output)\(ending.errors)")
    }

    /// A mistake in a manifest, and the number of faults that it makes.
    struct Mistake: Sendable {
        let file: String
        let text: String
        let other: String
        let faults: Int
    }

    private static let mistakes = [
        Mistake(file: "megaton", text: "readOnlyRootFilesystem", other: "readOnlyFilesystem", faults: 3),
        Mistake(file: "megaton", text: "minAvailable: 1", other: "minAvailable: []", faults: 2),
        Mistake(file: "scaledobject", text: "maxReplicaCount", other: "maxReplicas", faults: 1),
        Mistake(file: "scaledobject", text: "threshold: \"1200\"", other: "threshold: 1200", faults: 1),
        Mistake(file: "scaledobject", text: "type: Percent, value", other: "type: Percent, percent", faults: 1),
    ]

    /// The check finds fields that there are not, and values of a wrong type.
    @Test(arguments: mistakes) func aMistakeInAManifestIsFound(_ mistake: Mistake) async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let text = try Repository.text("deploy/kubernetes/\(mistake.file).yaml")
        let manifest = text.replacing(mistake.text, with: mistake.other)
        let ending = try await validation(of: [try directory.write(Data(manifest.utf8), to: "manifest.yaml")])
        #expect(
            ending.code == 1 && ending.output.hasSuffix(", \(mistake.faults) faults\n"),
            "\(ending.output)\(ending.errors)"
        )
    }

    /// The level `restricted` of Pod Security Standards, and probes of the listener of health checks.
    @Test(arguments: ["coordinator", "worker", "serve"]) func aDeploymentIsRestrictedAndProbed(_ role: String) throws {
        let deployment = try #require(try manifests("Deployment").first { $0.contains("name: megaton-\(role)\n") })
        let lines = [
            "runAsNonRoot: true", "runAsUser: 10001", "seccompProfile: {type: RuntimeDefault}",
            "allowPrivilegeEscalation: false", "readOnlyRootFilesystem: true", "capabilities: {drop: [ALL]}",
            "enableServiceLinks: false", "automountServiceAccountToken: false", "livenessProbe:", "readinessProbe:",
            "httpGet: {path: /live, port: health}", "httpGet: {path: /ready, port: health}", "resources: {requests:",
        ]
        for line in lines { #expect(deployment.contains(" \(line)"), "\(role): \(line)") }
        // A worker drains for 25 s, and so does a server after the 5 s in which its service forgets it.
        let isServer = role == "serve"
        #expect(deployment.contains(" terminationGracePeriodSeconds: \(isServer ? 35 : 30)\n"))
        #expect(deployment.contains(#"exec: {command: [sleep, "5"]}"#) == isServer)
        #expect(deployment.contains("0.0.0.0:8090") && deployment.contains("{name: health, containerPort: 8090}"))
        let budgets = try manifests("PodDisruptionBudget")
        #expect(budgets.contains { $0.contains("app.kubernetes.io/component: \(role)}") })
        // The image of the Containerfile has this user.
        #expect(try Repository.text("deploy/Containerfile").contains("USER 10001:10001"))
    }

    /// DocumentedCommandTests compares the options of the pages with those of the program.
    @Test func optionsAreThoseOfThePages() throws {
        let pages = try ["docs/serve.md", "docs/cli.md", "docs/metrics.md", "deploy/README.md"].map(Repository.text)
            .joined()
        let options = try Repository.text(Self.manifests).matches(of: /--[a-z][a-z-]+/).map { String($0.output) }
        #expect(options.count >= 8)
        for option in options { #expect(pages.contains(option), "\(option)") }
    }
}
