import Testing

@testable import MegatonServer

@Suite struct UnknownRouteTests {
    /// Clients of imgproxy make URLs without `/image`.
    @Test(arguments: [
        "/insecure/rs:fit:300:200/plain/http://example.org/a.jpg",
        "/AfrOrF3gWeDA6VOlDG4TzxMv39O7MXnF4CXpKUwGqRM/w:64/bG9jYWw",
        "/unsafe/plain/a.png",
    ])
    func pathsOfImageURLsAreAnsweredWithTheBeginningThatIsMissing(path: String) {
        let hint = UnknownRoute.Images(prefix: "/image", areServed: true).hint(path)
        #expect(hint == "Image URLs are /image/{signature}/{options}/{source}.")
    }

    @Test(arguments: ["/image/insecure/rs:fit:300:200/plain/a.jpg", "/insecure/rs:fit:300:200/plain/a.jpg"])
    func withoutAKeyTheVariablesAreNamed(path: String) {
        let hint = UnknownRoute.Images(prefix: "/image", areServed: false).hint(path)
        #expect(hint?.contains("MEGATON_KEY and MEGATON_SALT") == true)
    }

    @Test(arguments: ["/", "/api/v1/batches/a:b", "/api/v2/jobs", "/images", "/a/b/c/d", "/plain/a/b"])
    func otherPathsHaveNoHint(path: String) {
        #expect(UnknownRoute.Images(prefix: "/image", areServed: true).hint(path) == nil)
    }
}
