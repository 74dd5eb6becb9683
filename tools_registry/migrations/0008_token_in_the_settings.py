from django.db import migrations


class Migration(migrations.Migration):
    # A token says nothing by itself: the next change draws another one.
    dependencies = [("tools_registry", "0007_requests_no_longer_written"), ("agents", "0019_token_of_the_tools")]

    operations = [migrations.DeleteModel("CatalogueState")]
