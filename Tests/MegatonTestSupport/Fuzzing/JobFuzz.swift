#if DEBUG || MEGATON_FUZZ
    import Foundation
    import MegatonPipeline
    import MegatonRedis
    import NIOCore

    @testable import MegatonCluster

    /// What anybody may push into the public list: any bytes are a job or an error with a sentence, a job is what its own
    /// JSON says, and its outputs stay beneath the template's directory.
    public struct JobFuzz: FuzzTarget {
        public let name = "job"
        public let words = [
            "{", "}", "[", "]", ",", ":", "\"", "null", "true", "\\u0000", "\\ud800", "\\ud83d\\ude00", "\"source\":",
            "\"renditions\":[", "\"width\":", "\"output\":\"file:///", "{stem}", "{path}", "{name}", "..", "../",
            "%2e%2e",
            "%00", "...", "\"background\":\"#", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        ]
        public let seeds: [[UInt8]] = [
            #"{"source":"https://h/a.jpg"}"#,
            #"""
            {"id":"a.1","kind":"process","source":"https://h.example/a/b.jpg","renditions":[{"name":"small","width":256,
            "height":256,"fit":"cover","format":"webp","quality":75,"background":"#102030"},{"width":12}],
            "output":"file:///srv/{host}/{path}/{stem}-{name}.{ext}","batch":"spring","priority":"high","attempts":3}
            """#,
            #"{"kind":"fetch","source":"file:///srv/a%20b.png","priority":"bulk","attempts":100}"#,
            #"{"source":"data:image/png;base64,AAEC","preset":"web","output":"file:///t/{hash}/{width}x{height}"}"#,
        ].map { Array($0.utf8) }

        public init() {}

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            var fields = ["\"source\":\(text(&random))"]
            let others = [
                "\"id\":\"\(number(&random)).a:b-c_d\"", "\"kind\":\"\(random.pick(["process", "fetch", "Process"]))\"",
                "\"renditions\":[\(rendition(&random)),\(rendition(&random))]", "\"preset\":\(text(&random))",
                "\"output\":\"file:///\(output(&random))\"", "\"batch\":\"b\(number(&random))\"",
                "\"priority\":\"\(random.pick(["high", "normal", "bulk", ""]))\"", "\"attempts\":\(number(&random))",
                "\"credential\":\(text(&random))", "\"colour\":1",
            ]
            for field in others where random.once(in: 3) { fields.append(field) }
            return Array("{\(fields.shuffled(using: &random).joined(separator: ","))}".utf8)
        }

        private func number(_ random: inout SeededGenerator) -> String {
            random.pick(["1", "5", "100", "101", "0", "-1", "8192", "1.0", "2.5", "1e2", "9223372036854775808", "null"])
        }

        private func text(_ random: inout SeededGenerator) -> String {
            let parts = [
                "http://", "https://h/", "file:///", "data:,", "a", "/", "..", ".", "...", "%2F", "%2e", "%00",
                "\\u0000", "é",
                "\\n", "?", "#", "\\\\", "{stem}", "👩‍👧", ".jpg", " ",
            ]
            return "\"\((0..<Int.random(in: 0...8, using: &random)).map { _ in random.pick(parts) }.joined())\""
        }

        private func output(_ random: inout SeededGenerator) -> String {
            let parts = [
                "t/", "{path}", "{stem}", "{name}", "{ext}", "{host}", "{hash}", "{width}", "/", ".", "-", "%20",
            ]
            return (0..<Int.random(in: 0...8, using: &random)).map { _ in random.pick(parts) }.joined()
        }

        private func rendition(_ random: inout SeededGenerator) -> String {
            let name = random.pick(["a", "b", ".", "..", "x.y", ""])
            let background = random.pick(["#fff", "#ffffff", "123456", "#+12345", "#１２３４５６"])
            return
                #"{"name":"\#(name)","width":\#(number(&random)),"height":\#(number(&random)),"background":"\#(background)"}"#
        }

        public func check(_ input: [UInt8]) throws {
            let data = Data(input)
            for wasValidated in [false, true] {
                let job: Job
                do throws(JobError) {
                    job = try Job(json: data, wasValidated: wasValidated)
                } catch {
                    try promise(!error.message.isEmpty, "an error without a sentence")
                    continue
                }
                let json = job.json()
                try promise(!json.contains(10), "a job's JSON is one line")
                let again = try Job(json: json, wasValidated: wasValidated)
                try promise(again == job && again.json() == json, "\(job) became \(again)")
                if !wasValidated { try checkOutputs(job) }
            }
            // What a dead letter holds is read with the same care.
            _ = DeadLetter(id: "x", died: 0, json: .bulk(ByteBuffer(bytes: input)))
        }

        private func checkOutputs(_ job: Job) throws {
            guard let output = job.output else { return }
            let template = try OutputTemplate(output)
            for rendition in job.renditions ?? Job.defaultRenditions {
                let size = PixelSize(width: 1, height: 1)
                let path = template.path(source: job.source, rendition: rendition, size: size)
                try promise(path.hasPrefix("/") && !path.utf8.contains(0), "\"\(path)\" is no path")
                try promise(!path.split(separator: "/").contains(".."), "\"\(path)\" of \(job.source) leads upwards")
            }
        }
    }
#endif
