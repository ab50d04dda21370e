import Foundation
import FoundationNetworking
import MegatonHTTP
import Testing

@testable import MegatonCluster

/// The signature, the schedule and the rules of webhooks; nothing here uses a network.
@Suite struct WebhookRuleTests {
    private static let keys = ["0123456789abcdef", "another key of 27 characters"].map { Data($0.utf8) }

    /// The digests are those of another implementation, Python's `hmac`.
    @Test func theSignatureIsTheHMACOfTimeAndBody() {
        let first = "7eefd6dab3572ab7b831fd0f3b0189166fd2d48edffb19b3bed33209454c06ad"
        let second = "389919b32acce33735aecd07295b31296c577b4c05d69edfa9ca741f83f0025c"
        let body = Data(#"{"id":"a"}"#.utf8)
        let one = WebhookSignature(keys: [Self.keys[0]])
        #expect(one.field(of: body, at: 1_700_000_000) == "t=1700000000,v1=\(first)")
        let both = WebhookSignature(keys: Self.keys)
        #expect(both.field(of: body, at: 1_700_000_000) == "t=1700000000,v1=\(first),v1=\(second)")
        #expect(one.field(of: body, at: 1_700_000_001) != one.field(of: body, at: 1_700_000_000))
        #expect(one.field(of: Data(), at: 1_700_000_000) != one.field(of: body, at: 1_700_000_000))
    }

    @Test func theDelaysGrowUpToALimit() {
        let schedule = WebhookSchedule()
        let delays = (1...12).map { schedule.delay(after: $0, jitter: 1) }
        #expect(Array(delays.prefix(4)) == [5, 20, 80, 320].map { Duration.seconds($0) })
        #expect(delays[6..<11].allSatisfy { $0 == .seconds(7200) } && delays[11] == nil, "\(delays)")
        #expect(delays.compactMap(\.self).reduce(.zero, +) < schedule.age, "all attempts are made in time")
        for _ in 0..<100 {
            let delay = schedule.delay(after: 1) ?? .zero
            #expect(delay >= .seconds(4) && delay <= .seconds(6), "\(delay)")
        }
    }

    @Test func theServerMayAskForALongerDelay() {
        let schedule = WebhookSchedule()
        #expect(schedule.delay(after: 1, retryAfter: 90, jitter: 1) == .seconds(90))
        #expect(schedule.delay(after: 1, retryAfter: 1, jitter: 1) == .seconds(5), "not a shorter one")
        #expect(schedule.delay(after: 1, retryAfter: 1e9, jitter: 1) == .seconds(3600), "not one without end")
        #expect(schedule.delay(after: 12, retryAfter: 90) == nil)
    }

    @Test(arguments: [
        (#"{"webhook":""}"#, "2048"), (#"{"webhook":"ftp://h/a"}"#, "https:"), (#"{"webhook":"h/a"}"#, "https:"),
        (#"{"webhook":"https://u:p@h/a"}"#, "without a user"), (#"{"webhook":"https://h/a b"}"#, "ASCII"),
        (#"{"webhook":"https://h/a\u0000"}"#, "ASCII"), (#"{"webhook":7}"#, "https:"),
        (#"{"webhook":"https:///a"}"#, "https:"),
        (#"{"webhook":"https://h/a","list":"l"}"#, "goes with no list"),
        (#"{"webhook":"https://h/a","ttl":9}"#, "goes with a list only"), (#"{"ttl":9}"#, "webhook"),
    ])
    func anImpossibleWebhookIsNamed(_ reply: String, _ words: String) {
        let json = Data(#"{"source":"https://h/a","reply":\#(reply)}"#.utf8)
        #expect { try Job(json: json) } throws: { error in
            let message = (error as? JobError)?.message ?? ""
            return message.hasPrefix("reply") && message.contains(words) && !message.contains("u:p")
        }
    }

    @Test func aLongURLIsRefused() throws {
        let url = "https://h/" + String(repeating: "a", count: 2038)
        func job(_ url: String) -> Data { Data(#"{"source":"https://h/a","reply":{"webhook":"\#(url)"}}"#.utf8) }
        let job = try Job(json: job(url))
        #expect(job.reply == JobReply(webhook: url))
        #expect(try Job(json: job.json()) == job)
        #expect(throws: JobError.self) {
            try Job(json: Data(#"{"source":"https://h/a","reply":{"webhook":"\#(url)a"}}"#.utf8))
        }
    }

    @Test func theCoordinatorDecidesWhichWebhooksMayBeNamed() throws {
        var rules = WebhookRules()
        #expect(rules.problem(ofWebhook: "https://example.com/hook") == nil)
        #expect(rules.problem(ofWebhook: "http://example.com/hook")?.contains("--webhook-allow-http") == true)
        rules.allowsHTTP = true
        #expect(rules.problem(ofWebhook: "http://example.com/hook") == nil)
        rules.hosts = ["*.example.com", "https://example.org/hooks"]
        #expect(rules.problem(ofWebhook: "https://a.example.com/") == nil)
        #expect(rules.problem(ofWebhook: "https://example.org/hooks/1") == nil)
        for url in ["https://example.com/", "https://example.org/", "http://example.org/hooks", "https://example.net"] {
            #expect(rules.problem(ofWebhook: url)?.contains("--webhook-host") == true, "\(url)")
        }
        let read = try JSONDecoder().decode(WebhookRules.self, from: Data(WireJSON.text(rules).utf8))
        #expect(read == rules, "a worker that takes over has the same rules")
    }

    /// Fault: a job was admitted whose webhook has a port to which nothing is sent, and all of its attempts failed.
    @Test func thePortOfAWebhookMustBeAllowed() throws {
        var rules = WebhookRules()
        rules.ports = [80, 443, 8443]
        #expect(rules.problem(ofWebhook: "https://example.com:8443/hook") == nil)
        let problem = rules.problem(ofWebhook: "https://example.com:9000/secret") ?? ""
        #expect(problem.contains("the port 9000; the coordinator allows 80, 443, 8443 (--webhook-port)"), "\(problem)")
        #expect(!problem.contains("secret"))
        let read = try JSONDecoder().decode(WebhookRules.self, from: Data(WireJSON.text(rules).utf8))
        #expect(read == rules, "a worker that takes over has the same ports")
        rules.ports = nil
        #expect(rules.problem(ofWebhook: "https://example.com:9000/") == nil, "it may have a private address")
        let former = try JSONDecoder().decode(WebhookRules.self, from: Data(#"{"hosts":[],"allowsHTTP":true}"#.utf8))
        #expect(former.ports == nil && former.allowsHTTP)
    }

    /// Fault: `--webhook-host example.com:8443` without `--webhook-port 8443` allowed jobs that could not be sent.
    @Test func aRuleForAHostAllowsItsPort() throws {
        var configuration = WebhookConfiguration(keys: Self.keys)
        configuration.rules.ports = [80, 443]
        #expect(try configuration.connectionPolicy() == AddressPolicy())
        configuration.rules.hosts = ["example.com:8443", "*.example.org:9000/hooks", "example.net"]
        #expect(configuration.rules.problem(ofWebhook: "https://example.com:8443/") == nil)
        #expect(configuration.rules.problem(ofWebhook: "https://a.example.org:9000/hooks/1") == nil)
        for url in ["https://example.com/", "https://example.com:9000/", "https://example.net:8443/"] {
            #expect(configuration.rules.problem(ofWebhook: url)?.contains("--webhook-host") == true, "\(url)")
        }
        #expect(try configuration.connectionPolicy().ports == [80, 443, 8443, 9000])
        configuration.rules.hosts = ["example.com:*"]
        #expect(configuration.rules.problem(ofWebhook: "https://example.com:1/") == nil)
        #expect(try configuration.connectionPolicy().ports.count == 65535)
    }

    @Test func withoutAKeyNoJobMayNameAWebhook() {
        let json = Data(#"{"id":"a","source":"https://h/a","reply":{"webhook":"https://example.com/"}}"#.utf8)
        let pack = Data(#"{"id":"p","sources":["https://h/a"],"reply":{"webhook":"https://example.com/"}}"#.utf8)
        let validator = JobValidator(presets: [:])
        for pushed in [json, pack] {
            let candidate = validator.validate(pushed, batch: "")
            #expect(validator.target(of: candidate.reply).isEmpty, "the outcome of the refusal is not sent either")
            switch candidate.verdict {
            case .valid: Issue.record("a job with a webhook was accepted")
            case .invalid(let dead, _, _): #expect(dead.message.contains("--webhook-key"), "\(dead.message)")
            case .pack(let pack, _, let invalid):
                #expect(pack.sources.isEmpty && invalid.count == 1)
                #expect(invalid.allSatisfy { $0.message.contains("--webhook-key") }, "\(invalid)")
            }
        }
        let allowing = JobValidator(presets: [:], webhooks: WebhookRules())
        let candidate = allowing.validate(json, batch: "")
        #expect(allowing.target(of: candidate.reply) == "webhook\0https://example.com/")
        guard case .valid = candidate.verdict else {
            Issue.record("\(candidate.verdict)")
            return
        }
    }

    @Test func anEntryOfTheOutboxIsAListOrAWebhook() {
        let entry = OutboxEntry(Data("webhook\0https://example.com/\0b/a\0{}".utf8))
        #expect(entry?.reply == JobReply(webhook: "https://example.com/") && entry?.job == "b/a")
        #expect(OutboxEntry(Data("60\0l\0a\0{}".utf8))?.reply == JobReply(list: "l", ttl: 60))
        #expect(OutboxEntry(Data("webhook\0ftp://example.com/\0a\0{}".utf8)) == nil)
    }

    @Test func eachAnswerHasAnEffect() throws {
        func answer(_ status: Int, _ headers: [String: String] = [:]) -> WebhookSender.Answer {
            WebhookSender.answer(HTTPStatusError.error(status: status, headers: headers, url: "h"))
        }
        for status in [200, 201, 202, 204, 299] { #expect(answer(status) == .delivered) }
        guard case .refused(_, hasAnswered: true?) = answer(410) else {
            Issue.record("410 is repeated")
            return
        }
        // The status, the Retry-After that counts, and whether the host works.
        let failures: [(Int, Double?, Bool)] = [
            (301, nil, true), (400, nil, true), (404, nil, true), (429, 7, false), (500, nil, true), (502, nil, false),
            (503, 7, false), (504, nil, false),
        ]
        for (status, delay, works) in failures {
            guard case .failed(let reason, let retryAfter, let hasAnswered) = answer(status, ["retry-after": "7"])
            else {
                Issue.record("\(status) is not repeated")
                continue
            }
            #expect(retryAfter == delay && hasAnswered == works && reason.contains("\(status)"), "\(status)")
        }
        let late = WebhookSender.answer(ImageError(.timedOut, "late"))
        #expect(late == .failed(reason: "late", retryAfter: nil, hasAnswered: false))
        #expect(WebhookSender.answer(ImageError(.cancelled, "x")) == .cancelled)
        // Fault: a coordinator without descriptors opened the circuit breakers of healthy receivers.
        #expect(WebhookSender.answer(ImageError(.throttled, "x")) == .postponed(reason: "x"))
        let refused = WebhookSender.answer(ImageError(.forbidden, "private"))
        #expect(refused == .failed(reason: "private", retryAfter: nil, hasAnswered: false))
    }

    @Test func aRequestNamesItsJobAndAttempt() throws {
        let sender = try WebhookSender(WebhookConfiguration(keys: Self.keys))
        let webhook = try #require(
            ClaimedWebhook(
                member: "h:443\0" + "01700000000000\0" + "1700000000000\0" + "3\0" + "9",
                age: .zero,
                text: Data("https://h/hook\0b/a\0{\"id\":\"a\"}".utf8)
            )
        )
        let url = try #require(URL(string: webhook.url))
        let request = sender.request(webhook, to: url, at: Date(timeIntervalSince1970: 1_700_000_000.9))
        #expect(request.httpMethod == "POST" && request.httpBody == Data(#"{"id":"a"}"#.utf8))
        let fields = request.allHTTPHeaderFields ?? [:]
        #expect(fields["Content-Type"] == "application/json" && fields["Idempotency-Key"] == "b/a.1700000000000.9")
        #expect(fields["Megaton-Job"] == "a" && fields["Megaton-Attempt"] == "3")
        let signature = WebhookSignature(keys: Self.keys).field(of: webhook.outcome, at: 1_700_000_000)
        #expect(fields["Megaton-Signature"] == signature)
    }

    @Test func aFileHasAKeyOnEachLine() throws {
        let text = Data("  0123456789abcdef \r\n\nanother key of 27 characters\n".utf8)
        #expect(try WebhookKeyFile.keys(text) == Self.keys)
        let wrong = [
            ("", "is empty"), ("\n \n", "is empty"), ("short", "5 bytes"),
            (String(repeating: "k", count: 1025), "1025"),
            ((0..<5).map { "0123456789abcde\($0)" }.joined(separator: "\n"), "5 keys"),
        ]
        for (content, words) in wrong {
            #expect { try WebhookKeyFile.keys(Data(content.utf8)) } throws: { error in
                let problem = (error as? WebhookKeyFile.Problem)?.text ?? ""
                return problem.contains(words) && !problem.contains("0123456789")
            }
        }
        #expect(throws: WebhookKeyFile.Problem.self) { try WebhookKeyFile.keys(Data([0xFF, 0xFE, 0x00])) }
    }
}
