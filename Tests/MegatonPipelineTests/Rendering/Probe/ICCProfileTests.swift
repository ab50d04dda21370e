import Foundation
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

@Suite struct ICCProfileTests {
    private static func gamma(_ value: Double) -> Double { pow(value, 2.2) }

    private static func srgb(_ value: Double) -> Double {
        value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
    }

    @Test func sRGBIsRecognizedByItsNumbers() throws {
        for curve in [TestProfile.srgbCurve, TestProfile.table(1024, Self.srgb), TestProfile.table(4096, Self.srgb)] {
            let profile = try #require(ICCProfile(TestProfile.profile(curve: curve)))
            #expect(profile.isRGB && profile.isSRGB)
        }
    }

    @Test func aProfileThatOnlyResemblesSRGBIsNot() throws {
        let grey = [[0.4361, 0.2225, 0.0139], [0.3851, 0.7169, 0.0971], [0.1431, 0.0606, 0.7120]]
        let others: [(String, [UInt8])] = [
            ("Display P3", TestProfile.p3), ("other primaries", TestProfile.profile(primaries: grey)),
            ("a gamma of 2.2", TestProfile.profile(curve: TestProfile.table(1024, Self.gamma))),
            ("a plain gamma", TestProfile.profile(curve: Array("curv\0\0\0\0\0\0\0\u{1}\u{2}\u{33}".utf8))),
            ("no curve", TestProfile.profile(curve: Array("curv\0\0\0\0\0\0\0\0".utf8))),
            ("another function", TestProfile.profile(curve: TestProfile.parametric(0, [2.4]))),
            (
                "a curve that is cut off",
                TestProfile.profile(curve: Array(TestProfile.table(1024, Self.srgb).prefix(900)))
            ),
            ("tables", TestProfile.profile(extra: [("A2B0", [UInt8](repeating: 0, count: 32))])),
            ("Lab", TestProfile.profile(connection: "Lab ")),
        ]
        for (what, bytes) in others {
            let profile = try #require(ICCProfile(bytes), "\(what)")
            #expect(profile.isRGB && !profile.isSRGB, "\(what)")
        }
        let mono = try #require(ICCProfile(TestProfile.profile(space: "GRAY")))
        #expect(!mono.isRGB && !mono.isSRGB)
    }

    /// No length and no offset in the profile is trusted.
    @Test func damageIsNoProfileOrNotSRGB() {
        let good = TestProfile.profile(curve: TestProfile.table(16, Self.srgb))
        for length in 0..<good.count { #expect(ICCProfile(Array(good.prefix(length)))?.isSRGB != true, "\(length)") }
        for index in stride(from: 128, to: 132 + 12 * 6, by: 1) {
            var bytes = good
            bytes[index] = 0xFF
            #expect(ICCProfile(bytes)?.isSRGB != true, "\(index)")
        }
    }
}
