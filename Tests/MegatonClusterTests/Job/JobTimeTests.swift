import Foundation
import Testing

@testable import MegatonCluster

/// The fields `key`, `keyTTL` and `notBefore`.
@Suite struct JobTimeTests {
    private func job(_ fields: String) throws -> Job {
        try Job(json: Data(#"{"source":"https://h/a",\#(fields)}"#.utf8))
    }

    @Test(arguments: [
        (#""2026-11-23T08:00:00Z""#, 1_795_420_800.0), (#""2026-11-23T09:30:00+01:30""#, 1_795_420_800),
        (#""2026-11-23T08:00:00.250Z""#, 1_795_420_800.25), ("1795420800", 1_795_420_800),
        ("1795420800.5", 1_795_420_800.5),
    ])
    func timesAreReadInTwoForms(_ json: String, _ seconds: Double) throws {
        let read = try job(#""notBefore":\#(json)"#)
        #expect(read.notBefore == seconds)
        #expect(try Job(json: read.json()).notBefore == seconds)
    }

    @Test(arguments: [
        (#""notBefore":"tomorrow""#, "notBefore"), (#""notBefore":-1"#, "notBefore"),
        (#""notBefore":true"#, "notBefore"), (#""notBefore":"2027-01-31T08:00:00""#, "no zone"),
        (#""notBefore":"2027-02-30T08:00:00Z""#, "2027-02-30"), (#""notBefore":"2027-01-31T24:00:00Z""#, "T24:00"),
        (#""notBefore":"2027-13-01T08:00:00+01:00""#, "2027-13-01"),
        (#""notBefore":"2027-01-31T08:00:00Z or so""#, "Z or so"), (#""notBefore":"2027-01-31T08:00:00.Z""#, "00.Z"),
        (#""notBefore":4102444800"#, "2100-01-01T00:00:00Z"),
        (#""notBefore":99999999999"#, "366 days"), (#""key":"""#, "1 to 128 bytes"), (#""key":7"#, "key"),
        (#""keyTTL":60"#, "keyTTL goes with a key only"), (#""key":"k","keyTTL":0"#, "1 to 604800"),
        (#""key":"k","keyTTL":604801"#, "1 to 604800"),
        ("\"key\":\"\(String(repeating: "\u{1F511}", count: 33))\"", "has 132 bytes"),
    ])
    func impossibleValuesAreNamed(_ fields: String, _ words: String) {
        #expect { try job(fields) } throws: { ($0 as? JobError)?.message.contains(words) == true }
    }

    @Test func aKeyBelongsToTheSubmissionAndNotToTheWork() throws {
        let validator = JobValidator(presets: [:])
        let plain = validator.validate(Data(#"{"id":"a","source":"https://h/a"}"#.utf8), batch: "b")
        let keyed = validator.validate(
            Data(#"{"id":"a","source":"https://h/a","key":"k","notBefore":5}"#.utf8),
            batch: "b"
        )
        #expect(plain.digest != nil && plain.digest == keyed.digest && plain.content == keyed.content)
        #expect(plain.entry == nil && keyed.entry?.lifetime == .seconds(24 * 3600) && keyed.notBefore == 5000)
    }
}
